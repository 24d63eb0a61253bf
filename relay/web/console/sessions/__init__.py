"""Who is signed in: sessions in the database, found by a cookie, and forms that prove to come from them."""
