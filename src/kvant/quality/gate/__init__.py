"""May this cache replace that one? Suites over two arms, paired statistics, verdicts, and a report."""
