"""The only ring that knows vLLM: the plugin that puts packed pages into it, and the server around it."""
