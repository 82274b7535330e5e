"""What every server of Kvant's shares: its socket, the bodies it reads, the words in which it refuses."""
