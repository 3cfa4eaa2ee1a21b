"""The C header and the library beside the native module: a C program gets the same rows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import clickline._native as native
from clickline._native import CubeServer, Dictionary, Layers
from support.cubes.native_servers import JOB, TOKEN, write_table

PACKAGE = Path(native.__file__).parent
SOURCES = Path(__file__).parents[3] / "native"
PROGRAM = r"""
#include <clickline_cube.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* usage: program ADDRESSES JOB TOKEN TABLE VERSION KEY... : code, version, then status and floats of each key */
int main(int argc, char **argv) {
  const char *shards[] = {argv[1]};
  clickline_cube_options options = {"c program", argv[2], argv[3], strlen(argv[3]), 1.0, 0.0, 2};
  char error[256] = "";
  clickline_cube *cube = clickline_cube_open(shards, 1, &options, error, sizeof error);
  if (!cube) return fprintf(stderr, "%s\n", error), 1;
  uint64_t keys[64];
  size_t count = 0;
  for (int i = 6; i < argc; ++i) keys[count++] = strtoull(argv[i], NULL, 10);
  clickline_cube_rows rows;
  int code = clickline_cube_get(cube, argv[4], keys, count, strtoull(argv[5], NULL, 10), &rows, error, sizeof error);
  printf("%d %llu %s\n", code, (unsigned long long)rows.version, error);
  for (size_t i = 0; i < rows.count; ++i) {
    printf("%d", rows.status[i]);
    for (size_t j = 0; j < rows.dim; ++j) {
      float value;
      memcpy(&value, rows.values + i * rows.row_bytes + j * 4, 4);
      printf(" %g", value);
    }
    printf("\n");
  }
  clickline_cube_free(&rows);
  clickline_cube_close(cube);
  return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    header = next(
        folder for folder in (SOURCES / "include", PACKAGE / "include") if (folder / "clickline_cube.h").exists()
    )
    assert (PACKAGE / "libclickline_cube.so").exists(), "the build puts it beside the native module"
    (tmp_path / "program.c").write_text(PROGRAM)
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{header}", str(tmp_path / "program.c")]
    command += [f"-L{PACKAGE}", "-lclickline_cube", f"-Wl,-rpath,{PACKAGE}", "-o", str(tmp_path / "program")]
    subprocess.run(command, check=True)
    return tmp_path / "program"


def test_a_c_program_gets_the_same_rows(program: Path, tmp_path: Path, serve: Callable[..., CubeServer]) -> None:
    server = serve()
    server.load(2, {"user": Layers([Dictionary(str(write_table(tmp_path / "user", 2, 100)))])})
    server.switch(2, 1)

    def run(addresses: str, table: str, version: int, *keys: int) -> list[str]:
        command = [program, addresses, JOB, TOKEN.decode(), table, str(version), *map(str, keys)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()

    answers = run(f"tcp:127.0.0.1:1,{server.address}", "user", 0, 5, 1000, 5)
    assert answers == ["0 2 ", "0 2 5 7 0", "1 0 0 0 0", "0 2 5 7 0"]
    rows = np.array([line.split()[1:] for line in answers[1:]], np.float32)
    client = native.CubeClient([[server.address]], name="py", job=JOB, token=TOKEN)
    same = client.get("user", np.array([5, 1000, 5], np.uint64))
    np.testing.assert_array_equal(rows, same.values.view(np.float32))
    assert run(server.address, "user", 9, 1)[0].startswith("-4 0 no-such-version: ")
    assert run("tcp:127.0.0.1:1", "user", 0, 1)[0].startswith("-3 0 shard 0, tcp:127.0.0.1:1: ")
