"""``onelaunch serve``: the engine behind OpenAI's HTTP API."""

from __future__ import annotations

import math
from typing import Annotated

import typer
from rich.console import Console

from onelaunch.cli import engine_options as options
from onelaunch.cli.engine_options import engine_config
from onelaunch.cli.errors import CheckFailed


def serve(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8000,
    preset: options.Preset = None,
    model: options.Model = None,
    served_model_name: Annotated[
        str | None, typer.Option(help="What clients call the model. Default: its own name, or the preset's.")
    ] = None,
    device: options.Device = None,
    monokernel: options.Monokernel = None,
    attention: options.Attention = None,
    speculative_config: options.SpeculativeConfig = None,
    no_speculative: options.NoSpeculative = False,
    max_model_len: options.MaxModelLen = None,
    max_num_seqs: options.MaxNumSeqs = 32,
    max_num_batched_tokens: options.MaxNumBatchedTokens = None,
    block_size: options.BlockSize = 64,
    num_blocks: options.NumBlocks = None,
    enable_prefix_caching: options.EnablePrefixCaching = True,
    enforce_eager: options.EnforceEager = False,
    seed: options.Seed = 0,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="ONELAUNCH_API_KEY", show_envvar=True, help="What clients must send."),
    ] = None,
    shutdown_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds that running requests have to end after SIGINT or SIGTERM.")
    ] = 30.0,
) -> None:
    """Serve a model over HTTP: OpenAI's completions and chats, and vLLM's metrics."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ValueError(f"{error.name} is not installed: pip install onelaunch[engine]") from error
    from onelaunch.server import run

    if not math.isfinite(shutdown_timeout):
        raise ValueError(f"shutdown-timeout is {shutdown_timeout}: it must be a number of seconds")
    if api_key == "":
        raise ValueError("api-key is '': it must not be empty")
    config = engine_config(
        preset=preset,
        model=model,
        model_name=served_model_name,
        device=device,
        monokernel=monokernel,
        attention=attention,
        speculative_config=speculative_config,
        no_speculative=no_speculative,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        block_size=block_size,
        num_blocks=num_blocks,
        enable_prefix_caching=enable_prefix_caching,
        enforce_eager=enforce_eager,
        seed=seed,
    )
    from onelaunch.engine.core import EngineCore
    from onelaunch.server.app import make_app
    from onelaunch.server.engine_thread import EngineThread

    bound = run.bind(host, port)  # an address that can't be had must show now, not after loading
    engine = EngineThread(lambda: EngineCore(config))
    console = Console(stderr=True)
    with console.status(f"loading {config.model_name}"):
        engine.start()
    core = engine.core
    assert isinstance(core, EngineCore)
    path, reason = core.metadata_path
    address = bound.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]

    def ready() -> None:
        print(f"{config.model_name} on {config.device}: metadata by the {path} ({reason})", flush=True)
        print(f"serving at http://{shown}:{address[1]}", flush=True)

    app = make_app(engine, api_key=api_key)
    server = run.DrainingServer(app, engine, shutdown_timeout, ready)
    try:
        server.run(sockets=[bound])
    finally:
        engine.stop()
    if engine.fault is not None:
        raise CheckFailed(f"the engine failed: {engine.fault}")
