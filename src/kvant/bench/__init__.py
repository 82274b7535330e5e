"""`kvant bench`: what Kvant's kernels are measured against, alternating in one process."""
