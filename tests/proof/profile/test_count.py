"""Each rule of counting, on a small trace made by hand."""

from __future__ import annotations

import pytest

from onelaunch.proof.profile.count import count_launches
from onelaunch.proof.profile.report import to_json
from onelaunch.proof.profile.trace import read_trace
from proof.profile.traces import TraceMaker


@pytest.fixture
def counted(tmp_path):
    def count(maker: TraceMaker, annotation: str | None = None, device: str | None = None) -> dict:
        return to_json(count_launches(read_trace(maker.write(tmp_path / "t.json")), annotation, device))

    return count


def modes(kernels: dict) -> dict[str, int]:
    return {name: kernel["mode"] for name, kernel in kernels.items()}


def steps(count: int, maker: TraceMaker | None = None):
    """A maker, and the start of each of ``count`` annotated steps."""
    maker = maker or TraceMaker()
    for i in range(count):
        maker.annotate(f"ProfilerStep#{i}", 10_000 * i, 9_000)
        yield maker, 10_000 * i


@pytest.mark.parametrize(
    "call",
    [
        "cudaLaunchKernel",
        "cudaLaunchKernel_v7000",
        "cudaLaunchKernel_ptsz_v7000",
        "cudaLaunchKernelExC",
        "cudaLaunchKernelExC_v11060",
        "cudaLaunchCooperativeKernel",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "hipLaunchKernel",
        "hipLaunchKernelExC",
        "hipExtLaunchKernel",
        "hipModuleLaunchKernel",
        "hipExtModuleLaunchKernel",
    ],
)
def test_every_way_to_launch_a_kernel_is_a_host_launch(counted, call):
    for maker, at in steps(2):
        maker.launch("k", at + 10, call)
        maker.launch("k", at + 20, call)
    found = counted(maker)
    assert (found["launches"]["mode"], found["host_launches"], found["graph_launches"]) == (2, 2, 0)
    assert modes(found["kernels"]) == {"k": 2}


@pytest.mark.parametrize(
    "call", ["cudaGraphLaunch", "cudaGraphLaunch_v10000", "cuGraphLaunch", "hipGraphLaunch"]
)
def test_a_graph_launch_is_one_launch_and_its_nodes_are_apart(counted, call):
    for maker, at in steps(3):
        maker.launch("eager", at + 10)
        maker.graph(["gemm", "attention", "gemm"], at + 20, call)
    found = counted(maker)
    assert found["launches"] == {"mode": 2, "share": 1.0, "others": {}}
    assert modes(found["kernels"]) == {"eager": 1}
    assert modes(found["graph_kernels"]) == {"gemm": 2, "attention": 1}
    assert (found["graph_launches"], found["graph_nodes"], found["host_launches"]) == (1, 3, 1)
    assert found["kernel_events"] == 4
    assert found["device_us"] == 12


def test_memsets_and_device_copies_are_launches_and_copies_of_the_host_are_not(counted):
    for maker, at in steps(2):
        maker.launch("Memset (Device)", at + 10, "cudaMemsetAsync", "gpu_memset")
        maker.launch("Memcpy DtoD (Device -> Device)", at + 20, "cudaMemcpyAsync", "gpu_memcpy")
        maker.launch("Memcpy HtoD (Pageable -> Device)", at + 30, "cudaMemcpyAsync", "gpu_memcpy")
        maker.launch("Memcpy DtoH (Device -> Pinned)", at + 40, "cudaMemcpyAsync", "gpu_memcpy")
    found = counted(maker)
    assert found["launches"]["mode"] == 2
    assert set(found["kernels"]) == {"Memset (Device)", "Memcpy DtoD (Device -> Device)"}
    assert set(found["copies"]) == {"Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)"}
    assert (found["host_launches"], found["kernel_events"], found["device_us"]) == (0, 0, 6)


def test_copies_of_rocm_are_told_by_name_or_kind(counted):
    for maker, at in steps(2):
        maker.launch("CopyHostToDevice", at + 10, "hipMemcpyWithStream", "gpu_memcpy")
        maker.launch("CopyDeviceToHost", at + 20, "hipMemcpyWithStream", "kernel")
        maker.launch("Copy", at + 30, "hipMemcpyAsync", "gpu_memcpy", kind="HostToDevice")
        maker.launch("CopyDeviceToDevice", at + 40, "hipMemcpyAsync", "gpu_memcpy")
        maker.launch("__amd_rocclr_fillBufferAligned", at + 50, "hipMemsetAsync")
    found = counted(maker)
    assert set(found["kernels"]) == {"CopyDeviceToDevice", "__amd_rocclr_fillBufferAligned"}
    assert set(found["copies"]) == {"CopyHostToDevice", "CopyDeviceToHost", "Copy"}


def test_mode_share_and_other_values_are_over_steps_and_a_step_without_launches_is_one(counted):
    for i, (maker, at) in enumerate(steps(5)):
        for j in range((3, 3, 0, 3, 4)[i]):
            maker.launch("k", at + 10 * j)
    found = counted(maker)
    assert found["steps"] == 5
    assert found["launches"] == {"mode": 3, "share": 0.6, "others": {"0": 1, "4": 1}}
    assert found["kernels"]["k"]["device_us"] == 9


def test_a_launch_belongs_to_the_step_of_its_call_not_to_where_it_runs(counted):
    for maker, at in steps(3):
        for i in range(4):
            maker.launch("k", at + 8_000 + i, late=15_000)  # runs in the step after next
    assert counted(maker)["launches"] == {"mode": 4, "share": 1.0, "others": {}}


def test_a_launch_where_two_steps_touch_belongs_to_the_later(counted):
    maker = TraceMaker()
    maker.annotate("ProfilerStep#0", 0, 100)
    maker.annotate("ProfilerStep#1", 100, 100)
    maker.launch("k", 100)
    found = counted(maker)
    assert found["launches"] == {"mode": 1, "share": 0.5, "others": {"0": 1}}
    assert found["kernels"]["k"]["others"] == {"0": 1}


def test_launches_outside_all_steps_do_not_count(counted):
    for maker, at in steps(2):
        maker.launch("inside", at + 10)
        maker.launch("outside", at + 9_500)
    assert set(counted(maker)["kernels"]) == {"inside"}


def test_nested_and_repeated_annotations_make_no_steps_of_their_own(counted):
    for maker, at in steps(3):
        maker.annotate(f"ProfilerStep#{at // 10_000}", at + 50, 8_000)  # nested
        maker.annotate(
            f"ProfilerStep#{at // 10_000}", at + 60, 9_000, thread=2
        )  # another thread's copy, skewed
        maker.launch("k", at + 30)
        maker.launch("k", at + 5_000)
    found = counted(maker)
    assert (found["steps"], found["launches"]["mode"], found["launches"]["share"]) == (3, 2, 1.0)


def test_the_launching_threads_annotations_are_taken(counted):
    maker = TraceMaker()
    for i in range(4):  # another thread's, half a step early: they cover all launches too
        maker.annotate("decode", 10_000 * i - 5_000, 10_000, thread=2)
    for at in (0, 10_000, 20_000):
        maker.annotate("decode", at, 9_000)
        maker.launch("k", at + 100)
        maker.launch("k", at + 8_000)
    found = counted(maker)
    assert (found["steps"], found["launches"]["mode"], found["launches"]["share"]) == (3, 2, 1.0)


def test_order_in_the_file_does_not_matter(counted):
    for maker, at in steps(3):
        maker.launch("a", at + 10)
        maker.graph(["n"], at + 20)
    found = counted(maker)
    maker.events.reverse()
    assert counted(maker) == found


def test_an_annotation_can_be_chosen_and_the_outermost_match_is_a_step(counted):
    for maker, at in steps(2):
        for i in range(3):
            maker.annotate("decode_step", at + 1_000 * i, 900)
            maker.annotate("decode_step_attention", at + 1_000 * i + 1, 100)
            maker.launch("k", at + 1_000 * i + 5)
    assert counted(maker)["steps"] == 2
    found = counted(maker, "^decode_step")
    assert (found["steps"], found["launches"]["mode"]) == (6, 1)
    with pytest.raises(ValueError, match=r"t\.json: no annotation matches 'nothing'.*ProfilerStep#0"):
        counted(maker, "nothing")


@pytest.mark.parametrize(
    "name", ["decode_step", "execute_context_0(0)_generation_8(8)", "engine step 7", "forward"]
)
def test_other_annotations_are_found_too(counted, name):
    maker = TraceMaker()
    for at in (0, 1_000, 2_000):
        maker.annotate(name, at, 900)
        maker.annotate("nccl:all_reduce", at + 10, 10)
        maker.annotate("nccl:all_reduce", at + 30, 10)
        maker.launch("k", at + 5)
        maker.launch("k", at + 6)
    found = counted(maker)
    assert (found["steps"], found["launches"]["mode"]) == (3, 2)
    assert "annotation" in found["steps_from"]


def test_a_runtime_call_recorded_with_the_drivers_inside_is_one_launch(counted):
    for maker, at in steps(2):
        correlation = maker.launch("k", at + 10)
        maker.add("cuda_driver", "cuLaunchKernel", at + 11, 1, 100, 1, correlation=correlation)
        correlation = maker.graph(["n"], at + 20)
        maker.add("cuda_driver", "cuGraphLaunch", at + 21, 1, 100, 1, correlation=correlation)
    found = counted(maker)
    assert (found["launches"]["mode"], found["host_launches"], found["graph_launches"]) == (2, 1, 1)


def test_without_runtime_events_kernels_are_counted_by_the_gpus_annotations(counted):
    maker = TraceMaker()
    for i in range(3):
        maker.annotate(f"ProfilerStep#{i}", 1_000 * i, 900)
        maker.annotate_gpu(f"ProfilerStep#{i}", 5_000 + 1_000 * i, 500)
        for j in range(i + 1 if i == 2 else 2):
            maker.on_gpu("k", 5_000 + 1_000 * i + 10 * j, correlation=100 * i + j)
    found = counted(maker)
    assert found["launches"] == {"mode": 2, "share": 2 / 3, "others": {"3": 1}}
    assert modes(found["kernels"]) == {"k": 2}
    assert "no runtime events" in found["missing"][0]


@pytest.mark.parametrize("correlated", [True, False])
def test_without_runtime_events_and_gpu_annotations_it_is_by_time_on_the_device(counted, correlated):
    for maker, at in steps(3):
        maker.on_gpu("k", at + 100, correlation=at if correlated else None)
    found = counted(maker)
    assert found["launches"]["mode"] == 1
    assert found["launches"]["share"] == 1
    assert "time on the device" in found["missing"][0]


def test_an_event_without_its_call_is_by_the_gpus_annotation(counted):
    for maker, at in steps(3):
        maker.annotate_gpu(f"ProfilerStep#{at // 10_000}", at + 5_000, 9_000)
        maker.launch("k", at + 10, late=5_000)
        maker.on_gpu("orphan", at + 12_000, correlation=900 + at)  # by the host's, it were of the next step
    found = counted(maker)
    assert found["launches"] == {"mode": 2, "share": 1.0, "others": {}}
    assert found["missing"] == [
        "GPU events without a runtime event: 3 of 6, their step by the GPU's annotations"
    ]


def test_events_launched_before_the_trace_began_are_of_no_step(counted):
    maker = TraceMaker()
    maker.correlation = 500
    for i in range(5):
        maker.on_gpu("early", 100 + i, correlation=400 + i)
    for _, at in steps(2, maker):
        maker.launch("k", at + 10)
    found = counted(maker)
    assert set(found["kernels"]) == {"k"}
    assert found["missing"] == ["GPU events launched before the trace began: 5, not counted"]


def test_nodes_that_say_so_are_nodes_without_their_graphs_call(counted):
    for maker, at in steps(3):
        for j in range(4):
            maker.on_gpu("n", at + 100 + 10 * j, correlation=7 + at, **{"graph node id": 50 + j})
        maker.on_gpu("k", at + 300, correlation=8 + at, **{"graph node id": 0})
    found = counted(maker)
    assert (found["launches"]["mode"], found["graph_launches"], found["graph_nodes"]) == (2, 1, 4)


def test_the_gpus_annotations_alone_make_steps_in_device_time(counted):
    maker = TraceMaker()
    for i in range(3):
        at = 1_000 * i
        maker.annotate_gpu("decode", 5_000 + at, 500)
        maker.annotate_gpu("decode", 5_100 + at, 600, stream=8)
        maker.launch("k", at, late=5_000)
        maker.launch("k", at + 10, late=5_600, stream=8)
        maker.graph(["n", "n"], at + 20, late=5_100)
    found = counted(maker)
    assert found["steps"] == 3
    assert (found["launches"]["mode"], found["graph_launches"], found["host_launches"]) == (3, 1, 2)


def test_calls_without_an_event_are_told_and_not_counted(counted):
    for maker, at in steps(2):
        maker.launch("k", at + 10)
        maker.call("cudaLaunchKernel", at + 20)
        maker.graph([], at + 30)
    found = counted(maker)
    assert (found["launches"]["mode"], found["host_launches"], found["graph_launches"]) == (2, 2, 1)
    assert any("without a GPU event: 2" in note for note in found["missing"])
    assert any("without nodes in the trace: 2" in note for note in found["missing"])


def test_devices_are_counted_apart(counted):
    maker = TraceMaker()
    for at in (0, 10_000, 20_000):
        maker.annotate(f"ProfilerStep#{at}", at, 9_000)
        maker.device = 0
        for i in range(3):
            maker.launch("k", at + 10 * i)
        maker.device = 1
        maker.launch("k", at + 100)
        maker.graph(["n"], at + 110)
    found = counted(maker)
    assert (found["device"], found["devices"], found["launches"]["mode"]) == ("0", ["0", "1"], 3)
    other = counted(maker, device="1")
    assert (other["launches"]["mode"], other["host_launches"], other["graph_launches"]) == (2, 1, 1)
    with pytest.raises(ValueError, match="device is '5'"):
        counted(maker, device="5")


def test_a_device_clock_that_is_behind_changes_nothing(counted):
    for maker, at in steps(2):
        maker.launch("k", at + 10, late=-3)
        maker.graph(["n", "n"], at + 20, late=-30)
    found = counted(maker)
    assert (found["launches"]["mode"], found["graph_nodes"], found["missing"]) == (2, 2, [])


def test_an_event_that_does_not_say_its_device_is_of_the_one_of_its_process(counted):
    for maker, at in steps(2):
        maker.device = 3
        maker.launch("k", at + 10)
        maker.launch("Memset (Device)", at + 20, "cudaMemsetAsync", "gpu_memset")
        del maker.events[-1]["args"]["device"]
        for event in maker.events[-3:]:
            if event["cat"] in ("kernel", "gpu_memset"):
                event["pid"] = 77
    found = counted(maker)
    assert (found["launches"]["mode"], found["devices"]) == (2, ["3"])
    for event in maker.events:
        event.get("args", {}).pop("device", None)
    found = counted(maker)
    assert (found["launches"]["mode"], found["devices"]) == (2, ["77"])


def test_an_id_used_by_two_processes_is_the_later_call_before_the_event(counted):
    first, second = TraceMaker(process=100, device=0), TraceMaker(process=200, device=1)
    for maker, shift in ((first, 0), (second, 50_000)):
        for _, at in steps(2, maker):
            maker.events[-1]["ts"] += shift
            maker.launch("k", at + 10 + shift)
    first.events += second.events
    for device in ("0", "1"):
        found = counted(first, device=device)
        assert found["steps"] == 2
        assert found["launches"] == {"mode": 1, "share": 1.0, "others": {}}


def test_a_trace_without_gpu_events_says_what_to_profile(counted):
    for maker, at in steps(2):
        maker.add("cpu_op", "aten::add", at, 5, 100, 1)
    with pytest.raises(ValueError, match=r"t\.json: no GPU events.*ProfilerActivity\.CUDA"):
        counted(maker)


def test_a_trace_without_steps_says_what_was_looked_for(counted):
    maker = TraceMaker()
    maker.annotate("nccl:all_reduce", 0, 10)
    maker.launch("k", 5)
    maker.graph(["n"], 20)
    with pytest.raises(ValueError, match=r"t\.json: no decode steps: .*ProfilerStep.*graph launch.*nccl"):
        counted(maker)
