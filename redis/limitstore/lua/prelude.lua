-- Sluice on Redis: what every call starts with.
--
-- Numbers are doubles, exact below 2^53. They are kept and sent in binary
-- ('d'), never printed: printing is slow and tostring loses digits.
local call, read, write, byte = redis.call, struct.unpack, struct.pack, string.byte

-- The first byte of all that is stored. A script of another version knows by
-- it that it cannot read the rest. A record in which somebody waits has another
-- one, because it has tickets in it, of which the fast paths know nothing.
local VERSION, WAITING = 1, 2

-- Flags of an argument: the last one of a take; only token buckets and no
-- flags in it; one fixed window, that follows no calendar and is no shadow.
-- Flags of a demand.
local LAST, SIMPLE, WINDOWED = 1, 2, 4
local SHADOW, COUNTREFUSED = 1, 2

-- A key holds the buckets of one entity and resource, all limits together, so
-- that a take of several of them reads once and writes once:
--   version                               '<B'
--   until when the key lives at least     '<d'
--   digest of how many and the limits     '<d'
--   how many                              '<B'
--   the status of a take, always ALLOWED  '<B'
--   of each: used, rem, time, consumed    '<dddd'; rem is the end of the window
--                                         for a fixed window
--   of each: amount, period, capacity     '<ddd'
--   of each: scale, algorithm, calendar   '<dBB'
--   of each: its zone and name            '<BB', their lengths, and both
--   of each: the rest                     '<I4', its length, and the rest; all
--                                         left out if all are empty
-- The rest is holds, counts or holders. In a record in which somebody waits none
-- is left out, and each is followed by its tickets, '<I4' and the tickets.
--
-- The status and the states are also the reply to most takes, made once for
-- both. They are all that most takes change, so they are written into the
-- value where it is, as long as the key lives for long enough. For that it is
-- made to live longer than it must, by a quarter and a second.
--
-- The digest is there to compare limits as one number. It is made of 52 bits
-- of SHA-1. Nobody gains by finding two limits with the same: whoever may take
-- under a limit of his own choice can have it adopted anyway.
--
-- What a take wants of one key comes in one argument, in which the limits are
-- the same bytes:
--   flags, how many                       '<BB'
--   of each: flags, metadata              '<BB'
--   digest                                '<d'
--   of each: cost                         '<d'
--   of each: amount and so on             as above
--   of each that follows a calendar:      '<dddd', boundaries of windows
-- A plain take of one key is just that argument. Otherwise the first argument
-- is a header, which starts with the kind of the call and the time, '<Bd'. The
-- header of plain takes ends with two bytes for each part of a take, the
-- numbers of its key and of its argument; others end with a byte for each of
-- the other arguments, the number of its key.
--
-- The time is the server's, read once. Only tests send one, in the header or
-- after a lone argument; keys then live for an hour of real time whatever it
-- says.
local REFUSED, ALLOWED = 32, 33
local PLAIN = 16 -- the first kind; no flags of an argument are as much
local now, testing
