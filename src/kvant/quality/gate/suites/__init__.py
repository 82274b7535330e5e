"""One suite a file. To add one: the file, its section in settings.py and its row in registry.py."""
