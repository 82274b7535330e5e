"""What people and machines read of an outcome: a table, JSON, JUnit XML, and one page of HTML."""
