"""`kvant bench serve`: stock vLLM and Kvant as two servers that answer the same requests in turns."""
