"""What the journal's schema looks like, and how an older one becomes it.

Each step is applied once, in order, inside one transaction; there is no way back. A database that
is further than we are is left alone.
"""

from typing import Any

import psycopg
from psycopg import sql

from ....contracts import Reason
from ..journal import Unavailable
from ..tables.schema import SCHEMA, ddl

# Rows come in behind the last one, under the newest epoch, however they are inserted. The
# lock on `head` makes a takeover wait for rows that are about to be committed, and nothing else.
_FIRST = """
CREATE TABLE head (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    node text NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    beat bigint NOT NULL DEFAULT 0,
    holder text,
    home text,
    place text
) WITH (fillfactor = 10);
CREATE TABLE journal (
    seq bigint PRIMARY KEY CHECK (seq > 0),
    epoch bigint NOT NULL,
    wall_ms bigint NOT NULL,
    counter bigint NOT NULL,
    node text NOT NULL,
    request bytea NOT NULL,
    response bytea NOT NULL,
    changes bytea NOT NULL,
    digest text NOT NULL,
    state_digest text NOT NULL
) WITH (toast_tuple_target = 8160);
ALTER TABLE journal
    ALTER request SET STORAGE EXTERNAL,
    ALTER response SET STORAGE EXTERNAL,
    ALTER changes SET STORAGE EXTERNAL;
CREATE TABLE snapshot (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL,
    digest text NOT NULL,
    state_digest text NOT NULL,
    image bytea NOT NULL,
    image_digest text NOT NULL
);
CREATE FUNCTION refuse_strangers() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
DECLARE
    newest bigint;
    rows record;
BEGIN
    SELECT epoch INTO STRICT newest FROM head FOR SHARE;
    SELECT count(*) AS number, min(seq) AS first, max(seq) AS last,
           min(epoch) AS oldest, max(epoch) AS youngest
    INTO rows FROM fresh;
    IF rows.number = 0 THEN
        RETURN NULL;
    END IF;
    IF rows.oldest <> newest OR rows.youngest <> newest THEN
        RAISE EXCEPTION 'epoch %, the newest is %', rows.oldest, newest USING ERRCODE = 'UD001';
    END IF;
    IF rows.last - rows.first + 1 <> rows.number
        OR rows.first > 1 AND NOT EXISTS (SELECT FROM journal WHERE seq = rows.first - 1)
    THEN
        RAISE EXCEPTION 'row % has no row before it', rows.first USING ERRCODE = 'UD001';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER refuse_strangers AFTER INSERT ON journal
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION refuse_strangers();
CREATE FUNCTION refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of the journal stay as they are' USING ERRCODE = 'UD002';
END $$;
CREATE TRIGGER refuse_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON journal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_changes();
"""

# What standbys ask of the active one, and its replies (`errand.py`). Unlogged: a crash of the
# server empties them, and a waiting asker notices. Replies are never unique: a row that another
# wrote must not be able to stop a commit.
_ERRANDS = """
CREATE UNLOGGED TABLE errand (
    place bigint GENERATED ALWAYS AS IDENTITY,
    asker text NOT NULL CHECK (length(asker) BETWEEN 1 AND 48),
    number bigint NOT NULL,
    written timestamptz NOT NULL DEFAULT clock_timestamp(),
    taker text,
    body bytea NOT NULL CHECK (octet_length(body) <= 4194304),
    PRIMARY KEY (asker, number)
);
CREATE UNLOGGED TABLE reply (
    asker text NOT NULL CHECK (length(asker) BETWEEN 1 AND 48),
    number bigint NOT NULL,
    written timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason integer,
    lines bytea NOT NULL
);
CREATE INDEX ON reply (asker, number);
ALTER TABLE errand ALTER body SET STORAGE EXTERNAL;
ALTER TABLE reply ALTER lines SET STORAGE EXTERNAL;
CREATE FUNCTION ring_active() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('understudy_' || TG_TABLE_SCHEMA, '');
    RETURN NULL;
END $$;
CREATE TRIGGER ring_active AFTER INSERT ON errand
    FOR EACH STATEMENT EXECUTE FUNCTION ring_active();
CREATE FUNCTION ring_askers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('understudy_' || asker, '') FROM (SELECT DISTINCT asker FROM fresh) AS heard;
    RETURN NULL;
END $$;
CREATE TRIGGER ring_askers AFTER INSERT ON reply
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ring_askers();
"""

# The tables are a projection: whatever they become, they are dropped and made anew, and follow.
# `follow_to` comes last, so that a takeover waits for hardly more than the commit.
_TABLES = f"""
DROP TABLE IF EXISTS {", ".join(table.name for table in SCHEMA)};
{ddl("postgresql")}
CREATE OR REPLACE FUNCTION follow_from(expected bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM watermark WHERE seq = expected FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tables do not end with row %', expected USING ERRCODE = 'UD003';
    END IF;
END $$;
CREATE OR REPLACE FUNCTION follow_to(mine bigint, reached bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    newest bigint;
BEGIN
    SELECT epoch INTO STRICT newest FROM head FOR SHARE;
    IF mine <> newest THEN
        RAISE EXCEPTION 'epoch %, the newest is %', mine, newest USING ERRCODE = 'UD001';
    END IF;
    UPDATE watermark SET seq = reached;
END $$;
CREATE OR REPLACE FUNCTION clear_tables() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    {"".join(f"DELETE FROM {table.name}; " for table in SCHEMA if table.name != "watermark")}
END $$;
"""

# An image that is too long for one value lies here, and its column in `snapshot` is empty.
_PIECES = """
CREATE TABLE IF NOT EXISTS snapshot_piece (number bigint PRIMARY KEY, data bytea NOT NULL);
ALTER TABLE snapshot_piece ALTER data SET STORAGE EXTERNAL;
"""

# However an epoch is taken, the last row before it is written down.
_STARTS = """
CREATE TABLE IF NOT EXISTS epoch_start (epoch bigint PRIMARY KEY, after_seq bigint NOT NULL);
CREATE OR REPLACE FUNCTION note_epoch() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO epoch_start SELECT NEW.epoch, coalesce(max(seq), 0) FROM journal;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS note_epoch ON head;
CREATE TRIGGER note_epoch AFTER UPDATE OF epoch ON head
    FOR EACH ROW WHEN (NEW.epoch <> OLD.epoch) EXECUTE FUNCTION note_epoch();
"""

# The tables are made anew where they have changed.
STEPS: tuple[str, ...] = (_FIRST, _ERRANDS, _TABLES, _PIECES, _TABLES, _STARTS, *[_TABLES] * 3)


def version(db: psycopg.Connection[Any]) -> int:
    """How far the schema is; 0 where there is none. One that we do not know is refused."""
    found = db.execute("SELECT to_regclass('head')").fetchone()
    if found is None or found[0] is None:
        return 0
    known = db.execute("SELECT version FROM head").fetchone()
    number = int(known[0]) if known is not None else 0
    if number > len(STEPS):
        detail = f"it is at version {number}, and we know {len(STEPS)}"
        raise Unavailable(Reason.JOURNAL_TOO_NEW, detail)
    return number


def migrate(db: psycopg.Connection[Any], schema: str, node: str) -> bool:
    """Bring the schema to what we know; whether there was none."""
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"understudy.{schema}",))
        if db.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
            db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        before = version(db)
        for step in STEPS[before:]:
            db.execute(step.encode())
        if before == 0:
            db.execute("INSERT INTO head (version, node) VALUES (%s, %s)", (len(STEPS), node))
        else:
            db.execute("UPDATE head SET version = %s", (len(STEPS),))
    return before == 0
