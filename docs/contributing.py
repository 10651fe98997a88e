"""A Sphinx directive that shows a section of CONTRIBUTING.md: ``.. contributing:: a contrast``."""

import re
from pathlib import Path

from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

SOURCE = Path(__file__).parent.parent / "CONTRIBUTING.md"


class Contributing(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        self.env.note_dependency(str(SOURCE))
        text = SOURCE.read_text(encoding="utf-8")
        heading = re.escape(self.arguments[0])
        found = re.search(rf"^### … {heading}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
        if found is None:
            raise self.error(f"CONTRIBUTING.md has no section {self.arguments[0]!r}")
        lines, code = [], None
        for line in found[1].splitlines():
            # Lists, emphasis and literals are the same in both languages; blocks of code are not.
            if fence := re.match(r"( *)```(\w*)$", line):
                code = None if code is not None else fence[1]
                if code is not None:
                    lines += [f"{code}.. code-block:: {fence[2]}", ""]
                continue
            lines.append(f"   {line}" if code is not None and line else line)
        return self.parse_text_to_nodes(StringList(lines, source=str(SOURCE)))


def setup(app):
    app.add_directive("contributing", Contributing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
