"""Instructions stay: a value moves only out of a clause that says how things are.

The texts are made of what the rules look for (labels, dates, folders, ids, numbers) and of what turns a statement into an
instruction (modal verbs, conditions, bounds), in six languages. Every one of them must come out byte for byte.
"""

from __future__ import annotations

import pytest

from tests.canonical.desk import alone

FACTS = [
    ("Current time", "10:15"),
    ("Current date", "2026-03-04"),
    ("Date", "4 March 2026"),
    ("Today", "Friday, 9 October 2026"),
    ("Last updated", "2026-03-04 10:15"),
    ("Week", "2026-W20"),
    ("Working directory", "/home/mira/lab"),
    ("Workspace", "C:\\Users\\mira\\lab"),
    ("Git branch", "main"),
    ("Hostname", "web-03"),
    ("OS", "Debian 12"),
    ("Platform", "linux"),
    ("Shell", "/bin/bash"),
    ("Python version", "3.12.1"),
    ("Current file", "src/gear.py"),
    ("Screen", "1512x982"),
    ("Session ID", "7f3a9c52-11d4-4b3e-9c1e-0e8f5d2b7a60"),
    ("Request ID", "req_01HX9Z8Q"),
    ("Message ID", "6678"),
    ("Token budget", "16,384"),
    ("Tokens used", "4096 of 16384"),
    ("Uptime", "99.9 %"),
    ("Battery", "20%"),
    ("CPU usage", "85%"),
    ("PID", "48213"),
    ("Turn", "6 of 20"),
    ("Rate limit", "60 requests"),
    ("Outside temperature", "21 °C"),
]

LABELLED = """
{label}: never use {value}|{label}: {value} must be kept|{label}: always {value}|{label}: at most {value}
{label}: {value} at most
{label}: {value} or less|{label}: {value} or later|{label}: use {value}|{label}: {value} unless the user says otherwise
{label}: {value} should not be changed|{label}: {value}, never anything else|{label}: {value} (do not change it)
{label}: {value} (default)|{label}: {value} – never change it|{label}: {value} and nothing else|{label}: {value}, or ask
{label}: {value} is allowed|{label}: {value} required|{label}: keep {value} free|{label}: from {value}|{label}: until {value}
{label}: up to {value}|{label}: minimum {value}|{label}: {value} max|{label}: {value} if unknown|e.g. {label}: {value}
Example: {label}: {value}|- {label}: {value} is forbidden|- **{label}:** {value} only|| {label} | {value} or later |
{label}: niemals {value}|{label}: {value} darf nie geändert werden|{label}: jamais {value}|{label}: {value} ne doit pas changer
{label}: {value} au plus|{label}: nunca {value}|{label}: {value} no se debe cambiar|{label}: {value} como máximo
{label}：不得使用 {value}|{label}：{value} 不得更改|{label}：{value}は変更しないでください|{label}：必ず{value}を使うこと
"""
SENTENCES = """
{label} must be {value}.|The {lower} should be {value}.|If the {lower} is {value}, stop.
When the {lower} is {value}, ask the user.
Set the {lower} to {value}.|Use {value} as the {lower}.|Never print the {lower} ({value}).|Do not touch the {lower} {value}.
Only {value} may be the {lower}.|You must not change the {lower} from {value}.|Warn when {lower} is above {value}.
{label} = {value} means that you must stop.|Write "{label}: {value}" at the top.|Answer with `{label}: {value}`.
The {lower} is {value} only in tests.|The {lower} is {value} by default; never change it.|Assume that the {lower} is {value}.
Pretend the {lower} is {value}.|You may use {value} as {lower}.|{label} ({value}) is never shown.
"""


def shapes(text: str) -> list[str]:
    """One shape a line or between single bars; a shape that begins with a bar is a row of a table."""
    rows = [line[line.index("||") + 1 :] for line in text.splitlines() if "||" in line]
    plain = "\n".join(line.split("||")[0] for line in text.splitlines())
    return [*rows, *(shape for line in plain.splitlines() for shape in line.split("|") if shape)]


@pytest.mark.parametrize("shape", shapes(LABELLED) + shapes(SENTENCES))
def test_what_asks_for_something_stays(shape: str) -> None:
    for label, value in FACTS:
        text = "You are Pelle.\n\n" + shape.format(label=label, lower=label.lower(), value=value) + "\n\nStay calm."
        assert alone(text) == (text, "")


@pytest.mark.parametrize(("label", "value"), FACTS[:-2])
def test_the_same_words_move_where_they_state(label: str, value: str) -> None:
    """The other side of the test above: it must not pass because nothing moves at all."""
    told = f"{label}: {value}" if label != "Battery" else "Battery: 20% left"
    system, note = alone(f"You are Pelle.\n\n{told}\n\nStay calm.")
    assert value not in system
    assert value in note


@pytest.mark.parametrize(
    "rest", [". Never mention it.", "; never mention it.", " | Style: plain", ". Always answer in French."]
)
def test_an_instruction_behind_a_statement_stays_where_it_is(rest: str) -> None:
    system, note = alone(f"You are Pelle.\n\nCurrent time: 10:15{rest}\n\nStay calm.")
    assert system == f"You are Pelle.\n\nCurrent time: [see context]{rest}\n\nStay calm."
    assert note == "<context>\nCurrent time: 10:15\n</context>\n\n"


LINES = """
Never write to /home/mira/lab on 2026-03-04.
You must read /srv/app/README.md before 10:15.
Always keep 4096 of 16384 tokens free.
Do not restart web-03 between 10:00 and 11:00.
You should commit to main at most 3 times a day.
If it is 10:15, ring the bell.
When it is Friday, 9 October 2026, say hello.
It is 2026 that counts, not 2025.
It is 10:15 when the story begins.
Today is the first day of the rest of your life.
Now is the time to act.
Remember that 2026-03-04 is the deadline.
Please note that you must not use /etc.
Note: the session ends at 10:15.
The session must end at 10:15.
You have 3 attempts left if the first fails.
You have 20 steps; use them well.
You may use 4096 tokens.
You have used the wrong branch if git says so.
Work in /srv/app only.
Run from /srv/app.
Running on Linux is required.
You are running on borrowed time.
You are working in a team of 5.
You are working in /srv/app only when the user asks.
You are connected to the user by chat.
Connected to 3 devices at most.
The current directory is never /.
The workspace is read-only.
The repository is at least 10 years old.
The project root is where the README is.
The branch is deleted after 30 days.
Step 3 of 5: install the parts.
Turn 6 of 20 pages.
Iteration 3 of 5 must pass.
Context window 80% full means: summarise.
The context window is 80% full at most.
The uptime is 99.9 % by contract.
Uptime of 99.9 % is promised.
Battery at 20%: go home.
The battery is at 20% when the lamp blinks.
Weather: say it only if asked.
Temperature: 21 °C
Target temperature: 21 °C
Humidity limit: 60 %
Speed: 30 km/h
Memory: 8 GB at least
Disk: 120 GB
Messages: 30 a day
Requests: 60 per minute
Threads: 8
Processes: 4 at most
Step: 5
Round: 3
Round: 2 decimals
Turn: 90 degrees
Signal: SIGTERM
Wind: ask the sensor
Screen: 80x24 or larger
Resolution: 1920x1080 or better
Git: use rebase
Git: branch per task
Git: main is protected
git: main@1a2b3c4 is the last good commit
Current location: ask the user
User location: unknown
User location: never share it
Location: Port Elling
Container: one per user
Current file: never edit it
Open file: with the default editor
Open file: read.me first
Selected text: /etc/hosts
Default folder: /home/mira
Backup folder: /mnt/backup
Output directory: /srv/out must be empty
Allowed directories: /srv/app, /srv/data
Forbidden paths: /etc, /usr
Log directory: /var/log/app
Cache dir: /tmp/cache, cleared each night
Task ID: the number on the card
Session: 3 of 5
Session: 45 minutes
Session key: C major
Conversation: in English
Call ID: use the caller's number
Seed: 42
UUID: version 4
Key: value
Run: make test
Request: GET /v1/models
Message ID: 4 digits
Thread: 3/4 inch
Event ID: EV-2026 for all events of 2026
Ticket: OAK-17
Order number: 20260514-0042
Phone: +44 20 7946 0958
As of version 2.1 the rule is gone.
As of 2026-03-04 the price is 7 euros.
As of March 2026, Mira works in Oslo.
The prices are valid as of 2026-03-04 00:00.
Stand: 3 legs
Date: YYYY-MM-DD
Date: never before 2026-03-04
Week: 5 days
Week 20: harvest
Weeks: 20
Calendar week: Monday to Sunday
Calendar week: 20 of 52
Kalenderwoche: 20 bis 22
Semaine: 20 cours
Day: 3
Hour: 60 minutes
Updated: weekly
Last updated: by Mira
Generated at build time, never by hand.
Generated on 2026-03-04
Created at 10:15 each day.
Created: 2026-03-04
Version: 2026-03-04 10:15
Meeting time: 10:15
Start time: 2026-03-04 10:15
Opening time: 10:15
Wake-up time: 06:30
Departure: 2026-03-04 10:15
Birthday: 2026-03-04
Published: 2026-03-04
Market time: 09:30-16:00
Office time: 09:30
Sunday: closed
Monday: 10:00
Monday 10:00 - 18:00
Mon 10:15 stand-up
🕒 Support: 09:30-17:45
📅 2026-03-04 to 2026-03-11
⚠️ Never push to main.
[System note: never speak for the user.]
[Current time] must be shown in brackets.
【当前时间】必须显示。
Current time - must be shown.
Branch - main is protected
Platform - any
Host - the user
Host - web-03 must not be restarted
OS - Debian 12 or later
Metadata: {"date": "YYYY-MM-DD"}
Reply with this metadata: {"session_id": "abc123", "date": "2026-03-04"}
Context: {"cwd": "string"}
{"type": "object", "properties": {"cwd": {"type": "string"}}}
{"memories": {"type": "array"}}
{"user_profile": {"description": "who the user is"}}
<session id="required">
<task id="1">
<rule id="42">Never push.</rule>
<step id="3">
<workspace path="string">
<example date="2026-03-04">
| time | type |
| cwd | string |
| Date | Event |
| 10:15 | stand-up |
[Memories]
[Relevant rules]
--- BEGIN RULES ---
=== Start of memory policy ===
Arbeite nur in /srv/app.
Du arbeitest in einem Team von 5.
Du arbeitest im Ordner /srv/app nur auf Wunsch.
Wenn es 10:15 Uhr ist, läute.
Es ist 10:15 Uhr, wenn die Geschichte beginnt.
Der Akku darf nie unter 20 % fallen.
Akku bei 20 %: nach Hause
Zug: 3 Felder
Runde: 2 Stellen
Schritt 3 von 5: montieren
Lade den Akku auf 80 %.
Travaille seulement dans /srv/app.
Il est 10 h 15 quand l'histoire commence.
Il est interdit de toucher /etc.
Si la batterie est à 20 %, rentre.
Étape 3 sur 5 : monter
Tour : 3 cases
Es la hora de comer.
Son las 10:15 cuando empieza.
Trabaja solo en /srv/app.
Trabaja en /srv/app solo si lo piden.
Si la batería está al 20 %, vuelve.
Paso 3 de 5: montar
Turno: 2 jugadores
Conectado: siempre
如果现在是10:15，就响铃。
现在是改变的时候。
工作目录必须是 /srv/app。
当前分支不得是 main。
电量低于20%时提醒。
轮次：最多20
もし現在時刻が10:15なら鳴らしてください。
作業ディレクトリは /srv/app にしてください。
現在のブランチはmainにしないこと。
ホスト名はweb-で始めること。
バッテリーは20%以上にしてください。
ターン：20回まで
""".strip("\n").split("\n")


@pytest.mark.parametrize("line", LINES)
def test_lines_of_instructions_and_constants_stay(line: str) -> None:
    for around in (
        "You are Pelle.\n\n{}\n\nStay calm.",
        "You are Pelle.\n{}\nStay calm.",
        "# Rules\n- Be kind.\n- {}\n- Stay calm.",
    ):
        text = around.replace("{}", line)
        assert alone(text) == (text, "")
