-- Finds damage in a bucket: what other programs wrote there, or Redis evicted. On request it mends in the same step what
-- can be mended without a guess. Reads metadata and types, never a value. See maintenance.rs.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- The `scope` is `all`, or `names` for the given names alone. A page of the set of keys is read from `position` on.
local deadline, mends, scope, position = tonumber(ARGV[1]), ARGV[2] == 'mend', ARGV[3], ARGV[4]
local base = string.sub(meta, 1, -9) -- without `__meta__`
local bucket = string.sub(base, #registry - 11, -2) -- behind the registry's own prefix
local call, try, byte = redis.call, redis.pcall, string.byte
local UNDERSCORE = 95

local APPLIED, LATE = 0, 15
-- Keys of a bucket that is gone are on their way out if they expire this soon.
local LEAVING_MS = 60000

--@ clock
if deadline > 0 and now > deadline then return { LATE, now, '' } end

local reply = { APPLIED, now, 0, '0' }
-- Each finding is the key's name in the bucket, what is wrong, 1 if it is mended now, and a name that it is about.
local function note(name, problem, mended, about)
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = name, problem, mended and 1 or 0, about or ''
end

local left = call('PTTL', meta) -- 0: its last millisecond is over
if left ~= -1 and left <= 0 then
  for i = 5, left == -2 and #ARGV or 0 do
    local stays = ARGV[i] ~= '__writers__' and call('PTTL', base .. ARGV[i]) or 0
    if stays == -1 or stays > LEAVING_MS then note(ARGV[i], 'no metadata') end
  end
  return reply
end
reply[3] = 1
local expires
--@ expiry

local fields, stored = try('HGETALL', meta), nil
if not fields.err then
  stored = {}
  for i = 1, #fields, 2 do stored[fields[i]] = fields[i + 1] end
end
local is_set = type(try('SCARD', keys)) == 'number'

-- A key expires with its bucket or not at all. Broken metadata say nothing about that.
local function check_expiry(key, name)
  if not stored then return end
  local lasts = call('PTTL', key)
  if lasts == -1 and left > 0 then
    if mends then call('PEXPIREAT', key, expires) end
    note(name, 'never expires', mends)
  elseif lasts >= 0 and left == -1 then
    if mends then call('PERSIST', key) end
    note(name, 'expires', mends)
  end
end

if scope == 'all' then
  if not stored then note('__meta__', 'wrong type')
  else
    if not stored.created_at then note('__meta__', 'no created_at') end
    local seconds, sliding = stored.ttl_seconds, stored.sliding_ms
    if seconds and seconds ~= 'None' and not tonumber(seconds) then note('__meta__', 'wrong ttl_seconds') end
    if sliding and not string.find(sliding, '^%d+$') then note('__meta__', 'wrong sliding_ms') end
  end
  local candidates, seen = { 'log:history' }, {}
  for i = 1, stored and #fields or 0, 2 do candidates[#candidates + 1] = fields[i] end
  for _, field in ipairs(candidates) do
    --@ place of part
    if place and not seen[place] then
      seen[place] = true
      local text = stored and stored[field]
      if type(try(kind == 'log:' and 'LLEN' or 'HLEN', base .. place)) == 'table' then note(place, 'wrong type')
      elseif kind == 'log:' and text and (#text > 15 or not string.find(text, '^%d+$')) then note(place, 'wrong position')
      elseif kind == 'index:' and not string.find(text, '^%d+ %d+ %d+$') then note(place, 'wrong counts') end
      check_expiry(base .. place, place)
    end
  end
  if not is_set then
    if mends then call('UNLINK', keys) end
    note('__keys__', 'wrong type', mends)
  else check_expiry(keys, '__keys__') end
  if type(try('HLEN', writers)) == 'table' then
    if mends then call('UNLINK', writers) end
    note('__writers__', 'wrong type', mends)
  end
  local listed = try('SMISMEMBER', registry, bucket)
  if listed.err then
    if mends then call('UNLINK', registry) end
    note('__sessions__', 'wrong type', mends)
  end
  if listed.err or listed[1] == 0 then
    if mends then call('SADD', registry, bucket) end
    if not listed.err then note('__sessions__', 'not listed', mends) end
  end
end

-- The names in the set, read before anything is put into it.
local named = {}
if is_set and position ~= '' then
  local page = call('SSCAN', keys, position, 'COUNT', '1000')
  reply[4], named = page[1], page[2]
end
is_set = is_set or mends

for i = 5, #ARGV do
  local name = ARGV[i]
  local form, part = string.match(name, '^__(%l+)%.(.+)__$')
  if form == 'log' or form == 'map' or form == 'index' then
    -- Nothing but the metadata makes a part of it: what no field names is never read, and goes when one does.
    if stored and not stored[form .. ':' .. part] and call('EXISTS', base .. name) == 1 then
      if mends then call('UNLINK', base .. name) end
      note(name, 'no part', mends)
    end
  elseif (byte(name) ~= UNDERSCORE or not (string.find(name, '^__') and string.find(name, '__$')))
    and call('EXISTS', base .. name) == 1 then
    if type(try('STRLEN', base .. name)) == 'table' then note(name, 'wrong type') end
    check_expiry(base .. name, name)
    if not is_set then note('__keys__', 'lacks', false, name)
    elseif call('SMISMEMBER', keys, name)[1] == 0 then
      local mended = mends and call('SCARD', keys) < MOST_VALUES
      if mended then
        call('SADD', keys, name)
        if expires > 0 then call('PEXPIREAT', keys, expires) end
      end
      note('__keys__', 'lacks', mended, name)
    end
  end
end

for _, name in ipairs(named) do
  local its_own = false
  --@ if its own
    its_own = call('EXISTS', base .. name) == 1
  end
  if not its_own then
    if mends then call('SREM', keys, name) end
    note('__keys__', 'invents', mends, name)
  elseif #name > 256 or not string.find(name, '^[A-Za-z0-9_.%-]+$') then note('__keys__', 'no key', false, name) end
end
return reply
