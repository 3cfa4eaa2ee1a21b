"""A mistake in a model of the user's own is told by its own line and the shapes it was given, not by our frames."""

from __future__ import annotations

import pytest

from support.processes import run, small_settings, write_job

MODEL = """
import torch
from clickline import Model


class Wrong(Model):
    def __init__(self, fields):
        super().__init__(fields)
        vectors = self.embed("vectors", dim=4)
        self.out = torch.nn.Linear(vectors.width + 1, 1)

    def forward(self, inputs):
        if not self.training:
            raise KeyError("nothing")
        return self.out(inputs["vectors"].flatten(1)).squeeze(1)
"""


@pytest.mark.parametrize(
    ("cluster", "code"),
    [({}, 5), ({"pservers": 1, "trainers": 1, "threads": 1}, 7)],  # 7: another process, whose code 5 is told
    ids=["single", "servers"],
)
def test_a_shape_error_is_told_with_the_inputs_and_the_users_line(criteo, tmp_path, cluster, code):
    (tmp_path / "wrong.py").write_text(MODEL, encoding="utf-8")
    settings = small_settings(criteo, tmp_path) | {"model": {"name": f"{tmp_path}/wrong.py:Wrong"}, "cluster": cluster}
    done = run("train", write_job(tmp_path / "job.yaml", settings))
    assert done.returncode == code, done.stderr
    assert code == 5 or "trainer.0 failed, exit code 5" in done.stderr
    assert "Wrong.forward failed with RuntimeError: mat1 and mat2 shapes cannot be multiplied" in done.stderr
    assert 'wrong.py, line 15: return self.out(inputs["vectors"].flatten(1)).squeeze(1)' in done.stderr
    assert "its inputs were dense [100, 13], vectors [100, 39, 4]" in done.stderr
    assert "Traceback" not in done.stderr
    assert "clickline/train" not in done.stderr
