"""The console: a page that shows a release as it goes, and steers it."""
