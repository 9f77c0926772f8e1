"""README's Python example runs and prints what its comment says."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_example(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    exec(compile(code, str(README), "exec"), {})
    assert capsys.readouterr().out.strip() == code.splitlines()[-1].split("# ")[1]
    assert len([line for line in code.splitlines() if line]) <= 12
