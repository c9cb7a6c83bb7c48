"""YAML text -> values that know their place in it, with variables expanded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gateway.config.expand import expand, has_reference, is_writable
from gateway.config.masking import SourceText
from gateway.config.problems import InvalidConfig, Mark, Path, Problem
from gateway.config.yaml12 import MAX_DEPTH, MAX_NODES, SCALARS, TAG, compose


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place. `key`: place of the key that names it; `from_env`: never repeat the value, a variable is in it;
    `broken`: a problem with it has been reported, and its value means nothing.
    """

    value: bool | int | float | str | list[Node] | dict[str, Node] | None
    mark: Mark
    key: Mark | None = None
    from_env: bool = False
    broken: bool = False

    @property
    def entries(self) -> dict[str, Node]:
        """The entries of a mapping; none if it is something else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Node]:
        """The items of a list; none if it is something else."""
        return self.value if isinstance(self.value, list) else []

    @property
    def text(self) -> str | None:
        return self.value if isinstance(self.value, str) and not self.broken else None

    def at(self, path: Path) -> tuple[Node, Path]:
        """The deepest node on a path, and the path that leads to it.

        A position in something that is no list is passed over: one value may stand for a list of one.
        """
        node, found = self, ()  # type: tuple[Node, Path]
        for step in path:
            if isinstance(step, int) and not node.items:
                continue
            inside = node.items[step] if isinstance(step, int) else node.entries.get(step)
            if inside is None:
                break
            node, found = inside, (*found, step)
        return node, found

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value


@dataclass(frozen=True, slots=True)
class Document:
    """`problems` were found on the way: keys given twice, variables that are not set, tags."""

    source: SourceText
    root: Node
    problems: list[Problem]


def read(name: str, text: str, env: Mapping[str, str]) -> Document:
    """The text of a configuration as nodes. Raises InvalidConfig where nothing more can be read."""
    graph = compose(name, text)
    source = SourceText.of(name, text, graph or yaml.MappingNode(f"{TAG}map", []))
    converter = _Converter(source, env)
    root = converter.node(graph, ()) if graph else Node({}, Mark(0, 0))
    return Document(source, root, converter.problems)


@dataclass(slots=True)
class _Converter:
    source: SourceText
    env: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0
    scalars: dict[int, Node] = field(default_factory=dict)  # by id of the graph's node: an alias expands nothing again

    def node(self, node: yaml.Node, path: Path, key: Mark | None = None) -> Node:
        mark = Mark(node.start_mark.line, node.start_mark.column)
        self.nodes += 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise InvalidConfig(self.source, [Problem(mark, (), "aliases make this too large or contain themselves")])
        if isinstance(node, yaml.ScalarNode):
            if id(node) not in self.scalars:
                self.scalars[id(node)] = self._scalar(node, path, mark)
            known = self.scalars[id(node)]
            return Node(known.value, mark, key, known.from_env, known.broken)
        if node.tag not in (f"{TAG}map", f"{TAG}seq"):
            return self._broken(path, mark, "tags (!name) have no meaning here")
        if isinstance(node, yaml.MappingNode):
            return Node(self._entries(node, path), mark, key)
        return Node([self.node(item, (*path, at)) for at, item in enumerate(node.value)], mark, key)

    def _entries(self, node: yaml.MappingNode, path: Path) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for name, value in node.value:
            mark = Mark(name.start_mark.line, name.start_mark.column)
            if not isinstance(name, yaml.ScalarNode):
                self.problems.append(Problem(mark, path, "a key must be text"))
            elif not is_writable(name.value):
                self.problems.append(Problem(mark, path, "this key is not UTF-8 text"))
            elif name.value == "<<":
                self.problems.append(Problem(mark, path, "merge keys (<<) are not part of YAML 1.2"))
            elif name.value in entries:
                first = entries[name.value].key
                words = f"this key is given twice, first in line {first.line + 1}" if first else "this key is given twice"
                self.problems.append(Problem(mark, (*path, name.value), words))
            else:
                entries[name.value] = self.node(value, (*path, name.value), mark)
        return entries

    def _scalar(self, node: yaml.ScalarNode, path: Path, mark: Mark) -> Node:
        if node.tag not in SCALARS:
            return self._broken(path, mark, "tags (!name) have no meaning here; put a value that begins with ! in quotes")
        if not is_writable(node.value):
            return self._broken(path, mark, "this is not UTF-8 text")
        pattern, convert = SCALARS[node.tag]
        if not pattern.match(node.value):
            return self._broken(path, mark, "the value does not fit its tag")
        try:
            value = convert(node.value)
        except ValueError:  # Python's limit on the digits of a number
            return self._broken(path, mark, "this number is too long")
        if not isinstance(value, str) or not has_reference(value):
            return Node(value, mark)
        try:
            return Node(expand(value, self.env), mark, from_env=True)
        except ValueError as error:
            return self._broken(path, mark, str(error))

    def _broken(self, path: Path, mark: Mark, message: str) -> Node:
        self.problems.append(Problem(mark, path, message))
        return Node("", mark, broken=True)
