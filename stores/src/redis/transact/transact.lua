-- One transaction on one bucket, all or none. See wit/deps/store for what it promises, encode.rs for how requests
-- are written, decode.rs for how replies are read.
--
-- Three steps: open the bucket; probe whatever the operations will touch (expectations, types, counters,
-- positions); then write. Nothing before the first write can leave a trace, and nothing after it can
-- fail: the first write is one that Redis refuses when it is out of memory or read-only.
--
-- This is the frame. What each operation does in steps 2 and 3 is told by operations.lua, and transact.rs puts the
-- two together where a line begins with `--@`: for a shape of transactions as straight-line code with its
-- small numbers in place, for all others as a loop over the arguments. Names in capitals that nothing here
-- declares are numbers, put in by scripts/mod.rs.
--
-- What a transaction can make Redis do at one go is bounded: counts and lengths are looked at before names,
-- values and records are read, and what all operations read comes out of one `room`. Only what removes and renews a
-- bucket as a whole takes as long as that is large, and of ours no bucket has more than MOST_VALUES keys of values.
--
-- No functions: they are made again in every run, and cost as much as a call. Numbers as arguments of `call` are
-- dear, too, and so is a table in the reply: what can stay the text that it came as does, and the reply is flat.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- The stamp is the transaction's number and, behind a point, the deadline.
local writer, stamp, deadline, wanted = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- How many logs, maps (but for the values), indexes, leases (one at most) and keys of values the request speaks of, and
-- how many of those keys, the first ones, it sets; where their names are among the arguments, those of the first four as
-- fields of the metadata; the precondition, and whether it renews, whether anything is written, the time to live slides,
-- the set of all keys is touched, more is removed than written.
--@ shape
local base = string.sub(meta, 1, -9) -- without `__meta__`
local call, try, type, tonumber, byte, sub = redis.call, redis.pcall, type, tonumber, string.byte, string.sub
local UNDERSCORE = 95

-- Preconditions, statuses and failures, as encode.rs and decode.rs number them.
local GENERATION, CREATE, CREATE_NEW = 1, 2, 3 -- 0: whatever is there; 4: replace it
local APPLIED, REPEATED, ABSENT, EXPIRED, EXISTS, GENERATION_MISMATCH, UNMET = 0, 1, 2, 3, 4, 5, 6
local WRONG_TYPE, NOT_A_COUNTER, COUNTER_OVERFLOW, INVALID_POSITION, TOO_MANY_RECORDS, LATE, FULL, TOO_MANY_PARTS,
  TOO_MANY_VALUES, TOO_DEEP, NOT_ABOVE = 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20

-- Step 1: open. ------------------------------------------------------------------------------------

local part_count, fields = log_count + map_count + index_count + lease_count, nil
if part_count == 0 then fields = try('HMGET', meta, 'created_at', 'sliding_ms')
elseif part_count == 1 then fields = try('HMGET', meta, 'created_at', 'sliding_ms', ARGV[parts_at + 1])
else
  fields = try('HMGET', meta, 'created_at', 'sliding_ms')
  for from = 1, fields.err and 0 or part_count, 4000 do -- Lua's unpack ends at about 8000
    local more = call('HMGET', meta, unpack(ARGV, parts_at + from, parts_at + math.min(from + 3999, part_count)))
    for j = 1, #more do fields[1 + from + j] = more[j] end
  end
end
if fields.err then return { WRONG_TYPE, 0, '__meta__' } end

-- Who only reads what does not slide needs no clock: that there is time left is enough. `now` is 0 then, and `expires`
-- the time that is left.
local exists, expires, now, time = false, 0, 0, nil
if not writes and precondition < CREATE_NEW and not fields[2] then
  expires = call('PTTL', meta)
  exists = expires == -1 or expires > 0
end
if not exists then
  time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  expires = try('PEXPIRETIME', meta)
  if type(expires) == 'table' then -- before Redis 7
    expires = call('PTTL', meta)
    if expires >= 0 then expires = now + expires end
  end
  exists = expires == -1 or expires > now
end
local generation = exists and fields[1] or ''

local creates = not exists and precondition >= CREATE
local repeated, writers_expire, known, forgotten = false, 0, 0, nil
if writes or creates or precondition >= CREATE_NEW then
  if now > tonumber(deadline) then return { LATE, now, '' } end
  local seen = try('HMGET', writers, writer, '~')
  if seen.err then return { WRONG_TYPE, now, '__writers__' } end
  writers_expire = tonumber(seen[2]) or 0
  if seen[1] then
    -- A stamp as a number is at least the transaction's, and less than the next.
    repeated = (tonumber(seen[1]) or 0) >= math.floor(stamp)
  else
    --@ forget writers
  end
end

if not exists and (repeated or not creates) then
  local listed = try('SREM', registry, sub(base, #registry - 11, -2)) -- behind the registry's own prefix
  if type(listed) == 'table' then return { WRONG_TYPE, now, '__sessions__' } end
  return { (listed == 1 or expires ~= -2) and EXPIRED or ABSENT, now, 0, '' }
end
if precondition == CREATE_NEW and exists and not repeated then return { EXISTS, now, 0, generation } end
if precondition == GENERATION then
  if wanted ~= generation then return { GENERATION_MISMATCH, now, 0, generation } end
  generation = '' -- who named it knows it
end

-- Step 2: probe. -----------------------------------------------------------------------------------
-- Operations speak of parts and keys by number, so that each is looked at once. `members` tells with 1 which
-- keys are in the bucket, and with 2 which the transaction removed with all others. A log that the metadata does not know has no `first`, such a map is not `known`: what is
-- stored under its name is not seen, and goes when it comes into being; likewise an index. `coming` parts do so in this
-- transaction.
-- `held` is the set of all keys, if it is not large, as long as nothing has changed it. Others can put names into it
-- that are no keys.

local logs, maps, indexes, members, held, coming = {}, {}, {}, {}, nil, 0
-- What is left to read: entries and records, bytes of them, and places in lists that Redis goes past on its way.
local room, room_bytes, hops, searched_bytes = ROOM_PIECES, ROOM_BYTES, MOST_HOPS, SEARCHED_BYTES
for j = 1, log_count do
  local field = ARGV[parts_at + j]
  local log = { field = field, named = exists and fields[2 + j], length = 0 }
  if field == 'log:history' then
    -- The original's log is known without being named.
    log.list, log.first = base .. '__history__', tonumber(log.named or 0)
  else
    log.list, log.first = base .. '__log.' .. sub(field, 5) .. '__', tonumber(log.named)
  end
  -- What is no position is somebody's damage: the log is neither read nor begun again.
  if log.named and (#log.named > 15 or not string.find(log.named, '^%d+$')) then log.first, log.is_wrong = nil, true end
  if exists and log.first then
    local length = try('LLEN', log.list)
    if type(length) == 'table' then log.is_wrong = true else log.length = length end
  end
  logs[j] = log
end
for j = 1, map_count do
  local at = log_count + j
  local field = ARGV[parts_at + at]
  local map = { field = field, hash = base .. '__map.' .. sub(field, 5) .. '__', known = exists and fields[2 + at], length = 0 }
  if map.known then
    local length = try('HLEN', map.hash)
    if type(length) == 'table' then map.is_wrong = true else map.length = length end
  end
  maps[j] = map
end
for j = 1, index_count do
  local at = log_count + map_count + j
  local field = ARGV[parts_at + at]
  local index = { field = field, hash = base .. '__index.' .. sub(field, 7) .. '__', next = 0, documents = 0, terms = 0, length = 0 }
  local next, documents, terms = string.match(exists and fields[2 + at] or '', '^(%d+) (%d+) (%d+)$')
  if next then
    index.known, index.next, index.documents, index.terms = true, tonumber(next), tonumber(documents), tonumber(terms)
    local length = try('HLEN', index.hash)
    if type(length) == 'table' then index.is_wrong = true else index.length = length end
  end
  indexes[j] = index
end
local lease_field, lease_text = ARGV[parts_at + part_count], lease_count > 0 and exists and fields[2 + part_count]

if exists then
  if key_count > 0 and key_count <= 4000 then
    members = try('SMISMEMBER', keys, unpack(ARGV, keys_at + 1, keys_at + key_count))
    if members.err then return { WRONG_TYPE, now, '__keys__' } end
  else
    for from = 1, key_count, 4000 do
      local answers = try('SMISMEMBER', keys, unpack(ARGV, keys_at + from, keys_at + math.min(from + 3999, key_count)))
      if answers.err then return { WRONG_TYPE, now, '__keys__' } end
      for j = 1, #answers do members[from + j - 1] = answers[j] end
    end
  end
  if whole then
    -- Costs no more than to ask for all, and ends after the first thousand: then nothing is held.
    local page = try('SSCAN', keys, '0', 'COUNT', '1000')
    if page.err then return { WRONG_TYPE, now, '__keys__' } end
    if page[1] == '0' then held = page[2] end
  end
end

--@ probes

if forgotten and known > MOST_WRITERS and #forgotten == 0 and (writes or creates) then
  return { FULL, now, 'writers' }
end

-- Leases that have run out are none, and go when there are too many.
local stale = nil
local parts = coming > 0 and exists and call('HLEN', meta) or 0
if coming > 0 and parts + coming > MOST_PARTS then
  local all = exists and call('HSCAN', meta, '0', 'COUNT', '1000')[2] or {}
  local history = exists and call('EXISTS', base .. '__history__') or 0
  parts, stale = history, {}
  for j = 1, #all, 2 do
    local kind, lasts = sub(all[j], 1, 4), nil
    if kind == 'leas' then
      lasts = (tonumber(string.match(all[j + 1], '^%d+')) or 0) > now
      if not lasts then stale[#stale + 1] = all[j] end
    end
    if lasts or kind == 'map:' or kind == 'inde' or (kind == 'log:' and (all[j] ~= 'log:history' or history == 0)) then parts = parts + 1 end
  end
  if parts + coming > MOST_PARTS then return { TOO_MANY_PARTS, now, 'parts' } end
end

if exists and not repeated then
  local created = 0
  for slot = 1, set_count do
    if members[slot] ~= 1 then created = created + 1 end
  end
  if created > 0 and call('SCARD', keys) + created > MOST_VALUES then return { TOO_MANY_VALUES, now, 'values' } end
end

local listed
if creates then
  -- Perhaps the same twice: two that differ cost Redis more the larger the set is.
  listed = try('SRANDMEMBER', registry, -2)
  if listed.err then return { WRONG_TYPE, now, '__sessions__' } end
end

-- Step 3: write. -----------------------------------------------------------------------------------

-- Each use of a bucket registers it: an entry that was lost (evicted, or removed by a client that took the bucket
-- for dead) would stay lost. A reader does it each time; a writer at its first write and every few minutes.
local registers = exists and renews and (not writes or forgotten)
writes = writes and not repeated
if writes or creates then
  -- A server that is out of memory refuses only what comes before a script's first write: this one removes nothing, so
  -- that it lets those go on that make room.
  if makes_room and (exists or generation ~= '') then call('UNLINK', base .. '~') end
  -- The first write: refused as a whole when Redis takes none.
  if writers_expire < now + WRITERS_LIFE_MS / 2 + SPARE_MS then
    call('HSET', writers, writer, stamp, '~', now + WRITERS_LIFE_MS)
    call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
    registers = exists and renews
  else
    call('HSET', writers, writer, stamp)
  end
  if forgotten and #forgotten > 0 then call('HDEL', writers, unpack(forgotten)) end
end

-- It is nearly always there. Where nothing can be written, reads go on.
if registers then try('SADD', registry, sub(base, #registry - 11, -2)) end

-- Addresses that get the bucket's expiry after everything else has been written. Redis 7.0 drops a key at once whose expiry
-- has passed since the script began; another write would then bring it back, without an expiry.
local undated, keys_undated = {}, false

if creates then
  --@ empty bucket
  held = {}
  generation, expires = string.format('%s.%06d', time[1], time[2]), -1
  if wanted == '' then
    call('HSET', meta, 'created_at', generation, 'ttl_seconds', 'None')
  else
    local seconds = wanted / 1000
    local text = seconds % 1 == 0 and string.format('%.1f', seconds) or string.format('%.14g', seconds)
    expires = now + wanted
    if sliding then call('HSET', meta, 'created_at', generation, 'ttl_seconds', text, 'sliding_ms', wanted)
    else call('HSET', meta, 'created_at', generation, 'ttl_seconds', text) end
    undated[1] = meta
  end
  local prefix = sub(registry, 1, -13) -- without `__sessions__`
  local bucket = sub(base, #prefix + 1, -2)
  call('SADD', registry, bucket)
  -- Two at random, so that the registry can't grow without bound.
  for _, name in ipairs(listed) do
    if name ~= bucket and call('EXISTS', prefix .. name .. ':__meta__') == 0 then call('SREM', registry, name) end
  end
elseif renews and fields[2] and expires > 0 then
  local life = tonumber(fields[2])
  -- Where nothing can be written, it keeps the time that it has.
  if life and (life - (expires - now)) * 100 >= life and type(try('PEXPIREAT', meta, now + life)) == 'number' then
    expires = now + life
    --@ addresses
    undated = addresses
  end
end

if stale and #stale > 0 and writes then call('HDEL', meta, unpack(stale)) end

local reply = { repeated and REPEATED or APPLIED, now, creates and 1 or 0, generation }
local said = 4
--@ operations
for j = 1, #undated do call('PEXPIREAT', undated[j], expires) end
return reply
