-- The tickets of callers that wait, as package bucket keeps them. A working
-- copy's tickets are those that have not expired: five numbers each, node,
-- sequence, rank, cost and expiry, in the order in which they are served.

-- ticket_before_v2 compares places in line. Nodes and sequences are unsigned.
CREATE FUNCTION sluice.ticket_before_v2(
    rank bigint, node bigint, seq bigint, other_rank bigint, other_node bigint, other_seq bigint
) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (rank, node # '-9223372036854775808'::bigint, seq # '-9223372036854775808'::bigint)
        < (other_rank, other_node # '-9223372036854775808'::bigint, other_seq # '-9223372036854775808'::bigint)
$$;

-- ticket_v2 is where a ticket is among the tickets, or NULL.
CREATE FUNCTION sluice.ticket_v2(tickets bigint[], node bigint, seq bigint) RETURNS int
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    FOR i IN 1 .. coalesce(cardinality(tickets), 0) BY 5 LOOP
        IF tickets[i] = node AND tickets[i + 1] = seq THEN
            RETURN i;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- line_ends_v2 is when the last ticket expires.
CREATE FUNCTION sluice.line_ends_v2(tickets bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT max(tickets[i]) FROM generate_series(5, cardinality(tickets), 5) i $$;

-- line_v2 drops the tickets that have expired, and counts the others, as
-- somebody sees them who has none.
CREATE FUNCTION sluice.line_v2(w sluice.working_v2) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kept bigint[];
BEGIN
    FOR i IN 1 .. coalesce(cardinality(w.tickets), 0) BY 5 LOOP
        CONTINUE WHEN w.tickets[i + 4] <= w.now;
        kept := kept || w.tickets[i : i + 4];
        w.ahead := least(w.ahead + w.tickets[i + 3], sluice.max_tokens_v2());
        w.ahead_ends := least(w.ahead_ends, w.tickets[i + 4]);
        w.line_ends := greatest(w.line_ends, w.tickets[i + 4]);
    END LOOP;
    w.tickets := kept;
    RETURN w;
END $$;

-- stand_v2 makes w what a caller with a ticket sees: Spec.Stand. Who of one node
-- is first, the node itself decides.
CREATE FUNCTION sluice.stand_v2(w sluice.working_v2, node bigint, seq bigint, rank bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place int := sluice.ticket_v2(w.tickets, node, seq);
BEGIN
    w.rank := CASE WHEN place IS NULL THEN w.now + rank ELSE w.tickets[place + 2] END;
    w.ahead := 0;
    w.ahead_ends := NULL;
    FOR i IN 1 .. coalesce(cardinality(w.tickets), 0) BY 5 LOOP
        EXIT WHEN NOT sluice.ticket_before_v2(w.tickets[i + 2], w.tickets[i], w.tickets[i + 1], w.rank, node, seq);
        CONTINUE WHEN w.tickets[i] = node;
        w.ahead := least(w.ahead + w.tickets[i + 3], sluice.max_tokens_v2());
        w.ahead_ends := least(w.ahead_ends, w.tickets[i + 4]);
    END LOOP;
    RETURN w;
END $$;

-- leave_v2 takes a ticket out, which is there: Spec.Leave.
CREATE FUNCTION sluice.leave_v2(w sluice.working_v2, node bigint, seq bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place int := sluice.ticket_v2(w.tickets, node, seq);
BEGIN
    w.tickets := nullif(w.tickets[: place - 1] || w.tickets[place + 5 :], '{}');
    w.was_tickets := w.tickets;
    w.line_ends := sluice.line_ends_v2(w.tickets);
    w.changed := true;
    RETURN w;
END $$;

-- queue_v2 puts a ticket in with the rank that stand_v2 has found, in the place
-- of the one of its node: Spec.Queue.
CREATE FUNCTION sluice.queue_v2(w sluice.working_v2, node bigint, seq bigint, cost bigint, expires bigint) RETURNS sluice.working_v2
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kept  bigint[];
    place int := 1; -- in kept
BEGIN
    FOR i IN 1 .. coalesce(cardinality(w.tickets), 0) BY 5 LOOP
        CONTINUE WHEN w.tickets[i] = node;
        kept := kept || w.tickets[i : i + 4];
        IF sluice.ticket_before_v2(w.tickets[i + 2], w.tickets[i], w.tickets[i + 1], w.rank, node, seq) THEN
            place := place + 5;
        END IF;
    END LOOP;
    IF coalesce(cardinality(kept), 0) < 5 * 256 THEN
        kept := kept[: place - 1] || ARRAY[node, seq, w.rank, cost, expires] || kept[place :];
    END IF;
    w.tickets := kept;
    w.was_tickets := kept;
    w.line_ends := sluice.line_ends_v2(kept);
    w.changed := true;
    RETURN w;
END $$;
