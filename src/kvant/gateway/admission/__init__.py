"""Who is let in, and when: addresses, quotas, queues, and how many an arm takes."""
