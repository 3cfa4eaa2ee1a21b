"""What pods are told of each other: by pod IP, by service and on nodes' networks."""

from __future__ import annotations

import pytest

from clickline.config import Job
from clickline.launch.environment import read_role
from clickline.train.monitoring.metrics_place import metrics_place
from support.kubernetes.jobs_client import JobsClient, paddle_job, role


def test_pods_know_each_other_by_their_ips(jobs: JobsClient) -> None:
    jobs.create(paddle_job("podip", withGloo=1, ps=role(2), heter=role(1), worker=role(2)))
    names = ("ps-0", "ps-1", "heter-0", "worker-0", "worker-1")
    jobs.until_pods("podip", *names)
    assert jobs.get("configmaps", "podip") is None  # so that no container starts with half of the addresses
    jobs.run_pods("podip", *names)
    pods = jobs.pods("podip")
    ip = {name: pods[f"podip-{name}"]["status"]["podIP"] for name in names}
    given = jobs.environment(pods["podip-worker-1"])
    token = given.pop("CLICKLINE_TOKEN")
    port = int(given["PADDLE_PORT"])
    assert 36000 <= port < 56000
    assert given == {
        "POD_IP": ip["worker-1"],
        "PADDLE_TRAINER_ID": "1",
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINING_ROLE": "TRAINER",
        "PADDLE_PORT": str(port),
        "TRAINER_PORTS_NUM": "20",
        "PADDLE_PSERVERS_IP_PORT_LIST": f"{ip['ps-0']}:{port},{ip['ps-1']}:{port}",
        "PADDLE_TRAINER_ENDPOINTS": f"{ip['worker-0']}:{port},{ip['worker-1']}:{port}",
        "PADDLE_TRAINERS": f"{ip['worker-0']},{ip['worker-1']}",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_HETER_ENDPOINTS": f"{ip['heter-0']}:{port}",
        "PADDLE_WITH_GLOO": "1",
        "PADDLE_GLOO_RENDEZVOUS": "3",
        "PADDLE_GLOO_HTTP_ENDPOINT": f"{ip['ps-0']}:{port + 18}",
        "CLICKLINE_ROLE": "trainer",
        "CLICKLINE_RANK": "1",
        "CLICKLINE_PSERVERS": f"tcp:{ip['ps-0']}:{port},tcp:{ip['ps-1']}:{port}",
        "CLICKLINE_TRAINERS": "2",
        "CLICKLINE_COORDINATOR_PORT": str(port + 17),
        "CLICKLINE_POD_IP": ip["worker-1"],
        "CLICKLINE_METRICS": f"[{ip['worker-1']}]:9101",
    }
    assert metrics_place(Job(), role="trainer", rank=1, environ=given) == (ip["worker-1"], 9101)
    pod = pods["podip-worker-1"]
    assert pod["spec"]["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 9101, "protocol": "TCP"}]
    scraped = {key: value for key, value in pod["metadata"]["annotations"].items() if key.startswith("prometheus.io")}
    assert scraped == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9101",
        "prometheus.io/path": "/metrics",
    }
    assert "CLICKLINE_METRICS" not in jobs.environment(pods["podip-heter-0"])
    assert jobs.environment(pods["podip-heter-0"])["TRAINING_ROLE"] == "HETER"
    server = jobs.environment(pods["podip-ps-0"])
    assert server["CLICKLINE_TERMINATION_LOG"] == "/dev/termination-log"
    assert (server["TRAINING_ROLE"], server["CLICKLINE_TOKEN"]) == ("PSERVER", token)
    # Our own processes read just that.
    mine = read_role(environ=server)
    assert (mine.role, mine.rank, mine.hosts_coordinator) == ("pserver", 0, True)
    assert mine.coordinator == f"tcp:{ip['ps-0']}:{port + 17}"
    assert mine.bind == f"tcp:{ip['ps-0']}:{port}"
    theirs = read_role(environ=given | {"CLICKLINE_TOKEN": token})
    assert (theirs.role, theirs.rank, theirs.trainers, theirs.coordinator) == ("trainer", 1, 2, mine.coordinator)


def test_pods_know_each_other_by_services(jobs: JobsClient) -> None:
    jobs.create(paddle_job("named", intranet="Service", withGloo=2, ps=role(1), worker=role(2)))
    pods = jobs.until_pods("named", "ps-0", "worker-0", "worker-1")
    given = jobs.environment(pods["named-ps-0"])  # before any pod has an IP
    assert given["POD_IP"] == "named-ps-0"
    assert given["PADDLE_PSERVERS_IP_PORT_LIST"] == "named-ps-0:36000"
    assert given["PADDLE_TRAINER_ENDPOINTS"] == "named-worker-0:36000,named-worker-1:36000"
    assert given["PADDLE_GLOO_HTTP_ENDPOINT"] == "named-ps-0:36018"
    service = jobs.objects("services", "named")["named-ps-0"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]
    assert [one["port"] for one in service["spec"]["ports"]] == list(range(36000, 36020))
    labels = pods["named-ps-0"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    spec = pods["named-worker-0"]["spec"]
    assert (spec["hostname"], spec["subdomain"], spec["restartPolicy"]) == ("named-worker-0",) * 2 + ("OnFailure",)
    assert pods["named-ps-0"]["spec"]["restartPolicy"] == "Never"


def test_pods_on_nodes_networks_have_ports_that_no_other_pod_has(jobs: JobsClient) -> None:
    names = ("ps-0", "worker-0", "worker-1")
    for job in ("host-a", "host-b", "host-c"):
        jobs.create(paddle_job(job, intranet="Host", ps=role(1), worker=role(2)))
    ports: list[int] = []
    for job in ("host-a", "host-b", "host-c"):
        jobs.until_pods(job, *names)
        jobs.run_pods(job, *names)
        pods = jobs.pods(job)
        given = {name: jobs.environment(pods[f"{job}-{name}"]) for name in names}
        ports += [int(given[name]["PADDLE_PORT"]) for name in names]
        assert pods[f"{job}-ps-0"]["spec"]["hostNetwork"]
        server = int(given["ps-0"]["PADDLE_PORT"])
        assert given["worker-1"]["PADDLE_PSERVERS_IP_PORT_LIST"].endswith(f":{server}")
        assert server < int(given["worker-1"]["CLICKLINE_COORDINATOR_PORT"]) < server + 20
        declared = pods[f"{job}-worker-1"]["spec"]["containers"][0]["ports"]
        first = int(given["worker-1"]["PADDLE_PORT"])
        assert {one["name"]: one["hostPort"] for one in declared} == {"paddle": first, "metrics": first + 16}
        assert given["worker-1"]["CLICKLINE_METRICS"].endswith(f"]:{first + 16}")
    assert len(set(ports)) == 9
    assert all(port % 20 == 0 for port in ports)


def test_workers_alone_get_what_torchrun_would_tell_them(jobs: JobsClient) -> None:
    jobs.create(paddle_job("ranks", worker=role(2)))
    jobs.until_pods("ranks", "worker-0", "worker-1")
    jobs.run_pods("ranks", "worker-0", "worker-1")
    pods = jobs.pods("ranks")
    given = jobs.environment(pods["ranks-worker-1"])
    assert given["MASTER_ADDR"] == pods["ranks-worker-0"]["status"]["podIP"]
    assert int(given["MASTER_PORT"]) == int(given["PADDLE_PORT"]) + 19
    assert (given["RANK"], given["WORLD_SIZE"]) == ("1", "2")
    jobs.create(paddle_job("alone", worker=role(1)))
    jobs.until_pods("alone", "worker-0")
    jobs.run_pods("alone", "worker-0")
    assert "RANK" not in jobs.environment(jobs.pods("alone")["alone-worker-0"])
    assert jobs.until("alone", "Running")["mode"] == "Single"


@pytest.mark.parametrize("mode", ["PS", "Collective"])
def test_elastic_pods_get_paddles_elastic_variables_and_are_restarted(jobs: JobsClient, mode: str) -> None:
    name = f"elastic-{mode.lower()}"
    servers = {"ps": role(1)} if mode == "PS" else {}
    jobs.create(paddle_job(name, elastic=1, worker=role(2), **servers))
    names = ("worker-0", "worker-1", *(f"{server}-0" for server in servers))
    jobs.until_pods(name, *names)
    jobs.run_pods(name, *names)
    pod = jobs.pods(name)[f"{name}-worker-0"]
    given = jobs.environment(pod)
    assert given["PADDLE_ELASTIC_JOB_ID"] == f"jobs-{name}"
    assert (given["PADDLE_ELASTIC_NP"], given["PADDLE_ELASTIC_TIMEOUT"]) == ("2", "60")
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert ("PADDLE_TRAINER_ENDPOINTS" in given) == (mode == "PS")


def test_what_a_template_says_itself_stays_as_it_is(jobs: JobsClient) -> None:
    variables = [{"name": "PADDLE_TRAINER_ID", "value": "7"}, {"name": "OTHER", "value": "$(POD_IP)"}]
    sidecar = {"name": "logs", "image": "busybox:1"}
    worker = role(1, container={"env": variables}, pod={"restartPolicy": "OnFailure"})
    worker["template"]["spec"]["containers"].append(sidecar)
    annotations = {"note": "kept", "prometheus.io/scrape": "false"}
    worker["template"]["metadata"] = {"labels": {"team": "ads"}, "annotations": annotations}
    worker["template"]["spec"]["containers"][0]["ports"] = [{"name": "metrics", "containerPort": 7}]
    jobs.create(paddle_job("own", worker=worker))
    pod = jobs.until_pods("own", "worker-0")["own-worker-0"]
    first, second = pod["spec"]["containers"]
    names = [one["name"] for one in first["env"]]
    assert names.count("PADDLE_TRAINER_ID") == 1
    assert names[-2:] == ["PADDLE_TRAINER_ID", "OTHER"]
    assert "env" not in second
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert pod["metadata"]["labels"]["team"] == "ads"
    assert pod["metadata"]["annotations"].items() >= annotations.items()
    assert [(port["name"], port["containerPort"]) for port in first["ports"]] == [("metrics", 7)]
