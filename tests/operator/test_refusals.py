"""Jobs that are wrong: refused at apply where the definition can tell, failed with a sentence where only pods can."""

from __future__ import annotations

import pytest

from support.kubernetes.jobs_client import JobsClient, paddle_job, role


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"cleanPodPolicy": "onfailure"}, 'spec.cleanPodPolicy: Unsupported value: "onfailure": supported values:'),
        ({"intranet": "PodIp"}, 'spec.intranet: Unsupported value: "PodIp"'),
        ({"withGloo": 3}, "spec.withGloo: Unsupported value: 3"),
        ({"backoffLimit": -1}, "spec.backoffLimit in body should be greater than or equal to 0"),
        ({"worker": role(1001)}, "spec.worker.replicas in body should be less than or equal to 1000"),
        ({"worker": role(-1)}, "spec.worker.replicas in body should be greater than or equal to 0"),
        ({"worker": {"replicas": 1}}, "spec.worker.template: Required value"),
        ({"worker": {"template": role(1)["template"]}}, "spec.worker.replicas: Required value"),
        ({"worker": {"replicas": 1, "template": {"spec": {"containers": []}}}}, "should have at least 1 items"),
        ({"worker": None}, "spec"),
        ({"activeDeadlineSeconds": 0}, "should be greater than or equal to 1"),
        ({"suspend": "yes"}, "spec.suspend in body must be of type boolean"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_illegal_value_is_refused_at_apply(jobs: JobsClient, spec: dict[str, object], message: str) -> None:
    whole = {"worker": role(1), **spec}
    body = paddle_job("wrong", **{key: value for key, value in whole.items() if value is not None})
    assert message in jobs.refusal(body)


def test_a_misspelt_field_is_refused_at_apply(jobs: JobsClient) -> None:
    body = paddle_job("misspelt", cleanPolicy="Never", worker=role(1))
    ended = jobs.kubectl("apply", "-f", "-", given=body, check=False)
    assert ended.returncode != 0
    assert 'unknown field "cleanPolicy"' in ended.stderr


def test_a_name_that_pods_could_not_have_is_refused_at_apply(jobs: JobsClient) -> None:
    assert "metadata.name" in jobs.refusal(paddle_job("n" * 60, worker=role(1)))
    assert "metadata.name" in jobs.refusal(paddle_job("7days", worker=role(1)))


def test_the_deepfm_example_of_paddle_operator_is_accepted_for_all_that_it_misspells(jobs: JobsClient) -> None:
    jobs.create(paddle_job("deepfm", cleanPodPolicy="OnFailed", worker=role(1)))


def test_a_template_that_the_api_server_refuses_fails_the_job_with_its_words(jobs: JobsClient) -> None:
    jobs.create(
        paddle_job("refused", ps=role(1), worker=role(1, pod={"restartPolicy": "Never", "volumes": [{"name": "V"}]}))
    )
    status = jobs.until("refused", "Failed")
    assert "spec.volumes[0].name: Invalid value" in status["message"]
    condition = next(one for one in status["conditions"] if one["type"] == "Failed")
    assert condition["reason"] == "Invalid"
