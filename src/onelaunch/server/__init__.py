"""An HTTP server in front of the engine: OpenAI's completions and chats, vLLM's extras and metrics."""
