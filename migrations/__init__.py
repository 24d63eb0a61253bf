"""Database migrations, shipped inside the wheel."""
