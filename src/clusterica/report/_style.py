"""The style sheet of a page, light or dark as the system of the reader is set."""

CSS = """\
:root {
  color-scheme: light dark;
  --ink: #1d2129; --soft: #5b6472; --paper: #ffffff; --line: #dde1e7; --panel: #f5f6f8;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ec; --soft: #9aa4b2; --paper: #15181d; --line: #343a44; --panel: #1e2229; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.25rem 4rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1.25rem; }
h2 {
  font-size: 1.3rem; margin: 3rem 0 0.5rem; padding-top: 1.25rem;
  border-top: 1px solid var(--line);
}
p { margin: 0.75rem 0; max-width: 44rem; overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; }
figure img {
  display: block; max-width: 100%; height: auto; background: #ffffff;
  border: 1px solid var(--line); border-radius: 6px;
}
figcaption, caption { color: var(--soft); font-size: 0.9rem; text-align: left; }
figcaption { margin-top: 0.5rem; max-width: 44rem; }
caption { padding-bottom: 0.5rem; }
.table { overflow-x: auto; margin: 1.5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.95rem; }
th, td {
  padding: 0.5rem 0.75rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line);
}
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre {
  margin: 1rem 0; padding: 0.75rem 1rem; overflow-x: auto;
  background: var(--panel); border-radius: 6px;
}
code { font: 0.9rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
"""
