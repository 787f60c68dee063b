-- Sluice on Redis: what every script starts with.
--
-- Numbers are doubles, exact below 2^53. They are kept and sent in binary
-- ('d'), never printed: printing is slow and tostring loses digits.
local read, write, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local call = redis.call

-- The first byte of all that is stored. A script of another version knows by
-- it that it cannot read the rest.
local VERSION = 1

-- sluice.Algorithm
local TOKENS, SLIDING, FIXED, CONCURRENCY = 0, 1, 2, 3

-- Flags of an argument: the last one of a take; only token buckets and no
-- flags in it; one fixed window, that follows no calendar and is no shadow.
-- Flags of a demand.
local LAST, SIMPLE, WINDOWED = 1, 2, 4
local SHADOW, COUNTREFUSED = 1, 2

-- The time is the server's, read once. Only tests send one, in the first
-- argument; keys then live for an hour of real time whatever it says.
local now = read('<d', ARGV[1])
local testing = now ~= 0
if not testing then
	local t = call('TIME')
	now = t[1] * 1000000 + t[2]
end

-- A key holds the buckets of one entity and resource, all limits together, so
-- that a take of several of them reads once and writes once:
--   version, when all are full, how many  '<BdB'
--   of each: used, rem, time, consumed    '<dddd'; rem is the end of the window
--                                         for a fixed window
--   of each: its limit                    '<BB', the lengths of limit and name,
--                                         the limit, the name
--   of each: the rest                     '<I4', its length, and the rest; all
--                                         left out if all are empty
-- A limit is algorithm, calendar, amount, period, capacity, scale and zone:
-- '<BBdddds'. The rest is holds, counts or flights.
--
-- What a take wants of one key comes in one argument, in which the limits are
-- the same bytes:
--   flags, how many                       '<BB'
--   of each: flags, metadata, cost        '<BBd'
--   of each: its limit                    as above
--   of each that follows a calendar:      '<dddd', boundaries of windows
-- The first argument starts with the time and the kind of the call, '<dB', and
-- ends with a byte for each of the other arguments, the number of its key.

-- What the keys hold, false if nothing. It changes as the call goes on; what
-- has changed is written in the end.
local raws
if #KEYS == 1 then
	raws = {call('GET', KEYS[1])}
else
	raws = call('MGET', unpack(KEYS))
end
