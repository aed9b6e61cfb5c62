"""Jobs that book by connections they open themselves: of Django, SQLAlchemy, psycopg and asyncpg; see `ledger_app`."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import django
import psycopg
import sqlalchemy
from django.conf import settings
from django.db import connection as djangos
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from holdfast import App, Job, SyncJob
from tests.e2e.journal import Journal

URL = os.environ["E2E_URL"]
PARTS = psycopg.conninfo.conninfo_to_dict(URL)
DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": PARTS["dbname"], "USER": PARTS.get("user", "")}
settings.configure(DATABASES={"default": {**DATABASE, "HOST": PARTS.get("host", ""), "PORT": PARTS.get("port", "")}})
django.setup()

app = App(
    URL,
    ttl=os.environ["E2E_TTL"],
    recovery_interval=os.environ["E2E_RECOVERY"],
    poll_interval=os.environ["E2E_POLL"],
    grace=os.environ["E2E_GRACE"],
)
journal = Journal(Path(os.environ["E2E_FOLDER"]))
BOOKS = "INSERT INTO ledger VALUES ('{0.id}', '{0.attempt}')"


class Base(DeclarativeBase):
    """The tables of the books."""


class Entry(Base):
    __tablename__ = "ledger"
    job: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[str] = mapped_column(primary_key=True)


def waits(job: Job | SyncJob, what: str) -> Iterator[str]:
    """Yield the statements that keep the first attempt inside its block: indefinitely, or until the test gives up its lock."""
    while what == "works" and job.attempt == 1:
        yield "SELECT pg_sleep(0.05)"
    if what == "locked" and job.attempt == 1:
        yield "SELECT pg_advisory_xact_lock_shared(7)"


@app.task
async def book_by_asyncpg(job: Job, what: str) -> None:
    """Book in an event loop."""
    connection = await asyncpg.connect(URL)
    async with job.transaction(within=connection):
        await connection.execute(BOOKS.format(job))
        journal.write(job, "booked")
        for statement in waits(job, what):
            await connection.execute(statement)


@app.task
async def book_by_async_session(job: Job, what: str) -> None:
    """Book in an event loop, by objects."""
    engine = create_async_engine(URL.replace("postgresql:", "postgresql+asyncpg:", 1))
    async with AsyncSession(engine) as session, job.transaction(within=session):
        session.add(Entry(job=str(job.id), attempt=str(job.attempt)))
        await session.flush()
        journal.write(job, "booked")
        for statement in waits(job, what):
            await session.execute(sqlalchemy.text(statement))


def book_by_session(job: SyncJob, what: str) -> None:
    """Add an object, and flush it."""
    engine = sqlalchemy.create_engine(URL.replace("postgresql:", "postgresql+psycopg:", 1))
    with Session(engine) as session, job.transaction(within=session):
        session.add(Entry(job=str(job.id), attempt=str(job.attempt)))
        session.flush()
        journal.write(job, "booked")
        for statement in waits(job, what):
            session.execute(sqlalchemy.text(statement))


def book_by_psycopg(job: SyncJob, what: str) -> None:
    """Book in a thread or in a process."""
    with closing(psycopg.connect(URL)) as connection, job.transaction(within=connection):
        connection.execute(BOOKS.format(job))  # type: ignore[arg-type]
        journal.write(job, "booked")
        for statement in waits(job, what):
            connection.execute(statement)  # type: ignore[call-overload]


def book_by_django(job: SyncJob, what: str) -> None:
    """Book by Django's connection of this thread."""
    with job.transaction(within=djangos), djangos.cursor() as cursor:
        cursor.execute(BOOKS.format(job))
        journal.write(job, "booked")
        for statement in waits(job, what):
            cursor.execute(statement)
    djangos.close()


for handler in (book_by_session, book_by_psycopg, book_by_django):
    app.task(handler)
app.task(book_by_django, name="book_by_django_in_process", process=True)
