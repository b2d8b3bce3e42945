"""The cluster files agree with each other and with this version of mrag, Ray and Ray Serve.

Nothing here reaches a cloud or a cluster: Ray's own validation and its autoscaler's packing read the files.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import re
import shlex
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from mrag.errors import SettingsError
from mrag.models.weights import weights_home
from mrag.settings import DeploymentSettings, PoolSettings, Settings, load_settings

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster"
MANIFESTS = {"RayCluster": "raycluster", "RayJob": "rayjob", "RayService": "rayservice"}
CARDS = ("a800", "rtx")
SHARED = PurePosixPath("/mnt/mrag")
GIB = 1024**3


class StrictLoader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error, as it is for Kubernetes."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key stands twice near {node.start_mark}"
        return super().construct_mapping(node, deep)


def documents(path: Path) -> list[Any]:
    return list(yaml.load_all(path.read_text("utf-8"), Loader=StrictLoader))


def ray_up() -> Any:
    return documents(CLUSTER / "ray-up.yaml")[0]


def manifest(kind: str) -> Any:
    (document,) = documents(CLUSTER / "kuberay" / f"{MANIFESTS[kind]}.yaml")
    assert (document["apiVersion"], document["kind"]) == ("ray.io/v1", kind)
    return document


def ray_cluster(kind: str) -> Any:
    spec = manifest(kind)["spec"]
    return spec["rayClusterSpec"] if kind == "RayJob" else spec.get("rayClusterConfig", spec)


def groups(kind: str) -> dict[str, Any]:
    cluster = ray_cluster(kind)
    return {
        "head": cluster["headGroupSpec"],
        **{group["groupName"]: group for group in cluster["workerGroupSpecs"]},
    }


def container(group: Any) -> Any:
    (only,) = group["template"]["spec"]["containers"]
    return only


def quantity(text: str) -> int:
    return int(text.removesuffix("Gi")) * GIB


def service_secret() -> str:
    (token,) = (entry for entry in container(groups("RayService")["head"])["env"] if "valueFrom" in entry)
    return str(token["valueFrom"]["secretKeyRef"]["name"])


def readme() -> str:
    return (CLUSTER / "README.md").read_text("utf-8")


def dockerfile(instruction: str) -> list[str]:
    text = (CLUSTER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    return [" ".join(line.split()[1:]) for line in text.splitlines() if line.startswith(f"{instruction} ")]


# --------------------------------------------------------------------------- read by Ray


def node_types(place: str) -> dict[str, Any]:
    """The node types as Ray's autoscaler reads them, after its own validation; the head is `head`."""
    from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
    from ray.autoscaler._private.util import prepare_config, validate_config

    if place == "ray up":
        config = prepare_config(ray_up())
        validate_config(config)
    else:
        resource = {"metadata": {"name": "mrag", "namespace": "default"}, "spec": ray_cluster(place)}
        config = _derive_autoscaling_config_from_ray_cr(resource)
    types = dict(config["available_node_types"])
    return {"head": types.pop(config["head_node_type"]), **types}


PLACES = pytest.mark.parametrize("place", ["ray up", *MANIFESTS])


def demands(settings: Settings, part: str) -> list[dict[str, float]]:
    """What a job or the service asks for before it can begin, a bundle for each actor."""
    if part == "job":
        pools = [(pool, pool.min_actors) for pool in (settings.job.extractors, settings.job.encoders)]
        task = {"CPU": settings.job.task_num_cpus}
        return [task, *(bundle(pool) for pool, count in pools for _ in range(count))]
    stages = [stage for _, stage in settings.serve if isinstance(stage, DeploymentSettings)]
    return [bundle(stage) for stage in stages for _ in range(stage.min_replicas)]


def bundle(actor: PoolSettings | DeploymentSettings) -> dict[str, float]:
    amounts = {"CPU": actor.num_cpus, "GPU": actor.num_gpus}
    return {name: amount for name, amount in amounts.items() if amount}


def unplaced(types: dict[str, Any], wanted: list[dict[str, float]]) -> list[dict[str, float]]:
    """The bundles for which Ray's autoscaler finds no node within the maxima."""
    from ray.autoscaler._private import resource_demand_scheduler as scheduler
    from ray.autoscaler._private.node_provider_availability_tracker import NodeAvailabilitySummary

    score = functools.partial(
        scheduler._default_utilization_scorer, node_availability_summary=NodeAvailabilitySummary({})
    )
    _, rest = scheduler.get_nodes_for(types, {"head": 1}, "head", 100, wanted, score)
    return list(rest)


@PLACES
def test_the_head_takes_no_work_and_no_worker_waits_idle(place: str) -> None:
    types = node_types(place)
    assert types["head"]["resources"]["CPU"] == 0
    assert not types["head"]["resources"].get("GPU")
    assert {name: types[name]["min_workers"] for name in ("cpu", *CARDS)} == {"cpu": 0, "a800": 0, "rtx": 0}


@PLACES
def test_only_the_cards_of_the_settings_in_use_can_start(place: str) -> None:
    types = node_types(place)
    startable = [name for name, node in types.items() if node["resources"].get("GPU") and node["max_workers"]]
    assert startable == [Path(config).stem for config in {serve_arguments()["config"], entrypoint_config()}]


@PLACES
@pytest.mark.parametrize("part", ["job", "service"])
@pytest.mark.parametrize("name", [*CARDS, "api"])
def test_what_the_settings_ask_for_at_least_fits(place: str, part: str, name: str) -> None:
    types = copy.deepcopy(node_types(place))
    most = max(types[card]["max_workers"] for card in CARDS)
    for card in CARDS:
        types[card]["max_workers"] = most if card == name else 0
    wanted = demands(load_settings(ROOT / "configs" / f"{name}.yaml"), part)
    assert unplaced(types, wanted) == []
    assert unplaced(types, [*wanted, {"GPU": 100.0}]) == [{"GPU": 100.0}]


def test_the_cluster_releases_idle_machines_and_grows_in_steps() -> None:
    config = ray_up()
    assert config["idle_timeout_minutes"] > 0
    assert 0 < config["upscaling_speed"] <= 1
    assert config["provider"]["cache_stopped_nodes"] is False
    for kind in MANIFESTS:
        cluster = ray_cluster(kind)
        assert cluster["enableInTreeAutoscaling"] is True
        assert cluster["autoscalerOptions"]["upscalingMode"] == "Conservative"
        assert cluster["autoscalerOptions"]["idleTimeoutSeconds"] == 60 * config["idle_timeout_minutes"]


def test_ray_asks_for_a_token_everywhere() -> None:
    assert "-e RAY_AUTH_MODE=token" in ray_up()["docker"]["run_options"]
    assert "~/.ray" in ray_up()["file_mounts"]
    assert [ray_cluster(kind)["authOptions"] for kind in MANIFESTS] == [{"mode": "token"}] * 3


# --------------------------------------------------------------------------- the service and the job


def serve_config() -> Any:
    return documents(CLUSTER / "serve.yaml")[0]


def serve_arguments() -> Any:
    return serve_config()["applications"][0]["args"]


def entrypoint() -> list[str]:
    return shlex.split(manifest("RayJob")["spec"]["entrypoint"])


def entrypoint_config() -> str:
    words = entrypoint()
    return words[words.index("--config") + 1]


def test_the_rayservice_carries_the_service_file() -> None:
    assert yaml.safe_load(manifest("RayService")["spec"]["serveConfigV2"]) == serve_config()


def test_ray_serve_builds_the_application_of_the_service_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.serve import Application
    from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
    from ray.serve.schema import ServeDeploySchema

    schema = ServeDeploySchema.model_validate(serve_config())
    (application,) = schema.applications
    module, _, name = application.import_path.partition(":")
    builder = getattr(importlib.import_module(module), name)
    (parameter,) = inspect.signature(builder).parameters.values()
    arguments = parameter.annotation.model_validate(application.args)
    settings = load_settings(ROOT / arguments.config, tuple(arguments.overrides))
    assert (schema.http_options.host, schema.http_options.port) == (settings.serve.host, settings.serve.port)
    assert settings.collection.root.is_relative_to(SHARED)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(str(settings.serve.token_env), "a token of a test")
    assert isinstance(call_user_app_builder_with_args_if_necessary(builder, application.args), Application)


def test_the_service_answers_from_no_named_generation(tmp_path: Path) -> None:
    from serve.app import build_graph

    settings = load_settings(None, (f"collection.root={tmp_path}", "collection.generation=3"))
    with pytest.raises(SettingsError, match="in force"):
        build_graph(settings)


def test_the_jobs_command_line_accepts_the_entrypoint() -> None:
    import typer

    python, option, module, *arguments = entrypoint()
    assert (python, option) == ("python", "-m")
    command = typer.main.get_command(importlib.import_module(module).app)
    context = command.make_context(module, arguments)
    folder, config = (Path(str(context.params[name])) for name in ("folder", "config"))
    settings = load_settings(ROOT / config)
    assert folder.is_relative_to(SHARED)
    assert settings.collection.root.is_relative_to(SHARED)
    assert folder != settings.collection.root


def test_the_job_takes_its_cluster_with_it() -> None:
    spec = manifest("RayJob")["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["ttlSecondsAfterFinished"] > 0
    assert spec["backoffLimit"] > 0


def test_both_run_in_the_images_working_directory() -> None:
    (folder,) = (place for place in dockerfile("WORKDIR") if place.startswith("/home"))
    environments = [
        serve_config()["applications"][0]["runtime_env"],
        yaml.safe_load(manifest("RayJob")["spec"]["runtimeEnvYAML"]),
    ]
    assert environments == [{"working_dir": f"local://{folder}"}] * 2
    for config in (serve_arguments()["config"], entrypoint_config()):
        assert f"{config.split('/')[0]} {config.split('/')[0]}" in dockerfile("COPY")


# --------------------------------------------------------------------------- one image, one Ray


def test_every_place_has_the_ray_that_is_locked() -> None:
    ray = version("ray")
    lock = (ROOT / "requirements" / "gpu.txt").read_text("utf-8")
    assert re.findall(r"^ray==(\S+)", lock, re.MULTILINE) == [ray]
    images = {container(group)["image"] for kind in MANIFESTS for group in groups(kind).values()}
    images.add(ray_up()["docker"]["image"])
    assert len(images) == 1
    assert images.pop().endswith(f":ray{ray}")
    assert {ray_cluster(kind)["rayVersion"] for kind in MANIFESTS} == {ray}


def test_the_image_copies_what_is_there_and_sent_to_the_builder() -> None:
    sources = [copied for line in dockerfile("COPY") if "--from" not in line for copied in line.split()[:-1]]
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")
    }
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert set(sources) == sent


def test_the_image_is_not_run_by_root_and_says_where_home_is() -> None:
    (user,) = (line for line in dockerfile("RUN") if line.startswith("useradd"))
    uid = int(user.split("--uid ")[1].split()[0])
    assert dockerfile("USER") == [user.split()[-1]]
    assert "HOME=/home/ray" in " ".join(dockerfile("ENV")).split()
    for kind in MANIFESTS:
        for group in groups(kind).values():
            context = group["template"]["spec"]["securityContext"]
            assert (context["runAsNonRoot"], context["runAsUser"], context["fsGroup"]) == (True, uid, uid)


def test_a_jvm_in_a_worker_is_not_taken_for_a_crash() -> None:
    import ray._private.ray_constants

    variables = dict(pair.split("=") for pair in " ".join(dockerfile("ENV")).split())
    assert variables["RAY_DISABLE_FAILURE_SIGNAL_HANDLER"] == "1"
    assert hasattr(ray._private.ray_constants, "RAY_DISABLE_FAILURE_SIGNAL_HANDLER")


# --------------------------------------------------------------------------- what every node sees


def variables(place: str) -> dict[str, Any]:
    """The environment of the nodes; a secret's value is None."""
    if place == "ray up":
        options = [
            option[3:].partition("=") for option in ray_up()["docker"]["run_options"] if option[:3] == "-e "
        ]
        starts = ray_up()["head_start_ray_commands"][-1], ray_up()["worker_start_ray_commands"][-1]
        assert all(". ~/.ray/env;" in start for start in starts)
        (secret,) = re.findall(r'^echo "(\w+)=.*> ~/.mrag-cluster/env$', readme(), re.MULTILINE)
        return {secret: None, **{name: value for name, _, value in options}}
    first, *others = (container(group)["env"] for group in groups(place).values())
    assert all(other == first for other in others)
    return {entry["name"]: entry.get("value") for entry in first}


@PLACES
def test_the_settings_find_their_variables_and_weights_are_shared(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = variables(place)
    for config in (serve_arguments()["config"], entrypoint_config()):
        assert load_settings(ROOT / config).serve.token_env in names
    monkeypatch.setenv("MRAG_HOME", names["MRAG_HOME"])
    assert weights_home().is_relative_to(SHARED)
    assert PurePosixPath(names["HF_HOME"]).is_relative_to(SHARED)


def test_the_three_manifests_describe_one_cluster_under_three_names() -> None:
    assert ray_cluster("RayJob") == ray_cluster("RayService")
    assert ray_cluster("RayCluster") == ray_cluster("RayService")
    names = [manifest(kind)["metadata"]["name"] for kind in MANIFESTS]
    assert len({*names, service_secret()}) == 4  # KubeRay names services and secrets after them


@pytest.mark.parametrize("name", ["head", "cpu", *CARDS])
def test_a_pod_has_its_volumes_memory_and_no_probe_of_ours(name: str) -> None:
    group = groups("RayCluster")[name]
    pod, ray = group["template"]["spec"], container(group)
    (claim,) = documents(CLUSTER / "kuberay" / "storage.yaml")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    disk, shm = pod["volumes"]
    assert disk["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert {mount["mountPath"]: mount["name"] for mount in ray["volumeMounts"]} == {
        str(SHARED): disk["name"],
        "/dev/shm": shm["name"],
    }
    store = int(group["rayStartParams"]["object-store-memory"])
    assert store < quantity(shm["emptyDir"]["sizeLimit"]) < quantity(ray["resources"]["limits"]["memory"])
    assert ray["resources"]["requests"] == ray["resources"]["limits"]
    assert not {key for key in ray if key.endswith("Probe")}


@pytest.mark.parametrize("name", CARDS)
def test_a_gpu_pod_goes_to_the_nodes_of_its_card(name: str) -> None:
    pod = groups("RayCluster")[name]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert name in pod["nodeSelector"]["nvidia.com/gpu.product"].lower()
    assert [toleration["key"] for toleration in pod["tolerations"]] == ["nvidia.com/gpu"]


def test_machines_of_ray_up_mount_the_shared_folder_before_their_container_starts() -> None:
    config = ray_up()
    assert f"-v {SHARED}:{SHARED}" in config["docker"]["run_options"]
    assert any(f"mountpoint -q {SHARED} ||" in command for command in config["initialization_commands"])


def test_the_readme_names_files_that_exist() -> None:
    named = set(
        re.findall(r"(?<![\w-])(?:cluster|configs|requirements|docs|jobs|serve)/[\w./-]*\w", readme())
    )
    assert {"cluster/ray-up.yaml", "cluster/kuberay/rayjob.yaml", "configs/a800.yaml"} <= named
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_commands_of_the_readme_name_what_the_manifests_make() -> None:
    cluster, job, service = (manifest(kind)["metadata"]["name"] for kind in MANIFESTS)
    for words in (
        f"ray.io/cluster={cluster},",
        f"service/{cluster}-head-svc",
        f"get secret {cluster} ",
        f"job/{job}",
        f"service/{service}-serve-svc",
        f"create secret generic {service_secret()} --from-literal=token=",
        " ".join(entrypoint()),
        ray_up()["docker"]["image"],
    ):
        assert words in readme()


@pytest.mark.parametrize("path", sorted(CLUSTER.rglob("*.yaml")), ids=lambda path: path.name)
def test_every_file_says_that_it_is_untried_and_what_to_edit(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "UNTRIED" in text
    assert "EDIT" in text
    assert documents(path)
