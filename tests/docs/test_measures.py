"""Names stand for one thing each, and the script that measures the tree notices when they do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def measured(checkout: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    command = [sys.executable, ROOT / "tools" / "measures.py", checkout, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, {measure["name"]: measure for measure in json.loads(done.stdout)}


def made_tree(root: Path, modules: dict[str, str]) -> Path:
    for name, text in modules.items():
        path = root / "src" / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "native").mkdir()
    (root / "pyproject.toml").write_text("[[tool.importlinter.contracts]]\n" * 10, encoding="utf-8")
    return root


def test_no_public_class_name_is_defined_twice() -> None:
    doubled = measured(ROOT)[1]["public class names defined twice"]
    assert doubled["value"] == 0, doubled["detail"]


def test_few_module_names_are_used_twice() -> None:
    doubled = measured(ROOT)[1]["module names used twice"]
    assert doubled["value"] < 8, doubled["detail"]


def test_a_tree_within_all_limits_is_accepted(tmp_path: Path) -> None:
    tree = made_tree(tmp_path, {"one.py": "# Why.\nclass Row:\n    pass\n", "two.py": "class _Row:\n    pass\n"})
    code, found = measured(tree)
    assert code == 0
    assert all(measure["kept"] for measure in found.values())


def test_doubled_names_and_large_classes_are_found(tmp_path: Path) -> None:
    methods = "".join(f"    def method_{number}(self):\n        self.a{number} = 1\n" for number in range(13))
    others = methods.replace("method_", "other_").replace("self.a", "self.b")
    tree = made_tree(
        tmp_path,
        {
            "one/rows.py": "# Why.\nclass Row:\n    pass\n",
            "two/rows.py": f"# Why.\nclass Row:\n    pass\nclass Base:\n{methods}class Large(Base):\n{others}",
            "three.py": "\n".join(f"value_{number}: dict[str, Any]" for number in range(120))
            + "\n# Why.\n# Why.\n# Why.",
        },
    )
    code, found = measured(tree)
    assert code == 1
    missed = {name: measure["value"] for name, measure in found.items() if not measure["kept"]}
    assert missed == {
        "public class names defined twice": 1,
        "methods of the largest class": 26,
        "attributes of that class": 26,
        "dict[str, Any]": 120,
    }
    assert "one/rows.py" in found["public class names defined twice"]["detail"]
    assert found["module names used twice"]["detail"] == "rows"
    assert found["methods of the largest class"]["detail"] == "Large"
