"""The specialist's side of roblox-v1, as a sub-application that a specialist mounts."""
