"""What Kvant measures about itself."""
