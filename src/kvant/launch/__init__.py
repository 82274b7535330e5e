"""The launch checklist: everything a service must show before it is let loose, one command, one page."""
