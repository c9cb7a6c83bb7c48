"""The text from which the generated models learn their merges: prose, JSON and code as they occur in agents' prompts.

How many characters a token covers follows from how alike a prompt is to this text. Changing it changes every generated model.
"""

CORPUS = """\
You are a careful assistant who works for the people of this household and in this repository. You have access
to the tools that
are listed below. Call a tool whenever the answer depends on something that you cannot know, such as the
content of a file, the
state of a device, the weather or the calendar. Say what you are about to do before you do it, and report what came of it.
Never make up the result of a tool call. When a request is not clear, ask one short question instead of guessing.
Keep every answer short, friendly and precise. Name the file and the line when you write about code, and the
room and the device
when you write about the house. Do not delete, overwrite, publish or order anything unless the user has confirmed it first.
The current date and time is Tuesday, 3 March 2026, 09:41. The working directory is /srv/projects/garden. The
session identifier
is 52ab19e0-77c4-4c1f-9d3b-6f20c8e41a95. The platform is linux and the shell is bash. The model has a context
window of tokens.
Rules: answer in the language of the user; prefer metric units; round numbers to what the user needs; mention your sources.
Memory: the user lives in a small town, has two children, drinks tea in the morning and does not like to be
called before eight.
These are the most important facts about the project: the server is written in Python, the tests run with pytest, the style is
checked with ruff, the types with mypy, and a change is complete when the documentation describes the new behaviour as well.
First think about the request and write down a plan with numbered steps. Then carry out one step after another, look at each
result, and change the plan if something turned out differently from what you expected. Stop when the work is done.
The conversation so far contains messages from the user, answers from the assistant and results that were returned by tools.
Summarise the document for a reader who has five minutes, translate the summary, and put the remaining questions into a table.
Which of the following lights are still on, and when should they be switched off? Please check the heating in the living room,
open the shutters at sunrise, remind me about the meeting with the accountant, and add bread, butter and apples to the list.
There was once a lighthouse keeper who counted the ships that passed during the night, and he wrote their
names into a book; in
the morning he would read them aloud to the gulls, because there was nobody else who wanted to hear about
other people's travels.
# Tools
{"type": "function", "function": {"name": "search_files", "description": "Search the files of the project for
a pattern and return
the matching lines with their numbers", "parameters": {"type": "object", "properties": {"pattern": {"type": "string",
"description": "A regular expression to look for"}, "directory": {"type": "string", "description": "Where to
begin, by default the
working directory"}, "limit": {"type": "integer", "description": "The largest number of results", "minimum":
1, "maximum": 200}},
"required": ["pattern"], "additionalProperties": false}}}
{"type": "function", "function": {"name": "set_light", "description": "Switch a light on or off or change its brightness",
"parameters": {"type": "object", "properties": {"room": {"type": "string", "enum": ["kitchen", "bedroom", "office"]}, "state":
{"type": "boolean"}, "brightness": {"type": "number", "description": "Percentage between 0 and 100"}}, "required": ["room"]}}}
{"role": "user", "content": "What is on my calendar today?"}, {"role": "assistant", "content": null,
"tool_calls": [{"id": "call_1"
{"role": "tool", "tool_call_id": "call_1", "content": "{\\"events\\": [], \\"status\\": \\"ok\\", \\"error\\": null}"}
import json
from pathlib import Path

def load(path: Path, *, default: dict[str, object] | None = None) -> dict[str, object]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if default is None:
            raise
        return default

class Store:
    def __init__(self, items: list[str], limit: int = 100) -> None:
        self.items = items
        self.limit = limit

    async def fetch(self, name: str, timeout: float = 30.0) -> bytes:
        response = await self.client.get(f"{self.base}/{name}", timeout=timeout)
        if response.status != 200:
            raise ValueError(f"unexpected status {response.status} for {name}")
        return response.content

if __name__ == "__main__":
    for index, item in enumerate(sorted(items, key=lambda entry: entry.name)):
        print(index, item.name, item.value, sep="\\t")
| name | value | description |
|---|---|---|
- the first point of the list, which explains why the work is necessary
- the second point, which shows how it was measured and what was found
## Summary
"""
