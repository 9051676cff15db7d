-- What several scripts have in common: `--@ NAME` stands for the fragment of that name. Put in by mod.rs, as are
-- the numbers whose names are in capitals.

--- fragment only keys
-- Of the `names`, those that are keys: nothing keeps others from putting something else there.
do
  local all, count = names, 0
  names = {}
  for j = 1, #all do
    local name = all[j]
    if string.find(name, '^[A-Za-z0-9_.%-]+$') and #name <= 256
      and (byte(name) ~= UNDERSCORE or not (string.find(name, '^__') and string.find(name, '__$'))) then
      count = count + 1
      names[count] = name
    end
  end
end

--- fragment if its own
-- What has that `name` in the set of keys is the bucket's own value, whether or not it is a key of ours: neither
-- bookkeeping, nor behind another colon, where a store with a longer prefix may be.
if not string.find(name, ':', 1, true)
  and (byte(name) ~= UNDERSCORE or not (string.find(name, '^__') and string.find(name, '__$'))) then

--- fragment place of part
-- Of a `field` of the metadata: the `place` of the log, map or index that it names, if it names one, behind the base.
local kind, part = string.sub(field, 1, 4), string.sub(field, 5)
local place = kind == 'map:' and '__map.' .. part .. '__'
  or kind == 'log:' and (part == 'history' and '__history__' or '__log.' .. part .. '__')
if kind == 'inde' and string.sub(field, 5, 6) == 'x:' then
  kind, part = 'index:', string.sub(field, 7)
  place = '__index.' .. part .. '__'
end

--- fragment addresses
-- The `addresses` of all that a bucket has, found by its metadata and its set of keys, whatever it is; and the
-- `names` in that set. Not the writers: they outlive a bucket.
local addresses, names, named = { meta, keys, base .. '__history__' }, try('SMEMBERS', keys), try('HKEYS', meta)
if names.err then names = {} end
for j = 1, named.err and 0 or #named do
  local field = named[j]
  --@ place of part
  if place then addresses[#addresses + 1] = base .. place end
end
for j = 1, #names do
  local name = names[j]
  --@ if its own
    addresses[#addresses + 1] = base .. name
  end
end

--- fragment digest of bucket
-- The `digest` of all that it holds.
-- Each part by itself, its name's length before it, so that no two buckets are written alike. Sets and hashes have no
-- order: what is put in order is the parts' digests, whose digits every server sorts alike.
local parts = {}
local fields = try('HGETALL', meta)
if fields.err then return { WRONG_TYPE, now, '__meta__' } end
local candidates, seen = { 'log:history' }, {}
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  parts[#parts + 1] = hash('f' .. #field .. ':' .. field .. value)
  candidates[#candidates + 1] = field
end
local held = try('SMEMBERS', keys)
if held.err then return { WRONG_TYPE, now, '__keys__' } end
for _, name in ipairs(held) do
  --@ if its own
    local value = try('GET', base .. name)
    if type(value) == 'table' then return { WRONG_TYPE, now, name } end
    -- One that was evicted is none.
    if value then parts[#parts + 1] = hash('v' .. #name .. ':' .. name .. value) end
  end
end
for _, field in ipairs(candidates) do
  --@ place of part
  if place and kind ~= 'log:' then
    local entries = try('HKEYS', base .. place)
    if entries.err then return { WRONG_TYPE, now, part } end
    for _, key in ipairs(entries) do
      parts[#parts + 1] = hash((kind == 'map:' and 'm' or 'i') .. #part .. ':' .. part .. #key .. ':' .. key .. call('HGET', base .. place, key))
    end
  elseif place and not seen[place] then
    seen[place] = true
    local length, digest = try('LLEN', base .. place), ''
    if type(length) == 'table' then return { WRONG_TYPE, now, part } end
    for from = 0, length - 1, 256 do
      local records = call('LRANGE', base .. place, from, from + 255)
      for i, record in ipairs(records) do records[i] = #record .. ':' .. record end
      digest = hash(digest .. table.concat(records))
    end
    if length > 0 then parts[#parts + 1] = hash('l' .. #part .. ':' .. part .. digest) end
  end
end
table.sort(parts)
local digest = hash(table.concat(parts))

--- fragment empty bucket
-- All that it has is removed, and what an earlier life left behind.
--@ addresses
for from = 1, #addresses, 4000 do call('UNLINK', unpack(addresses, from, math.min(from + 3999, #addresses))) end

--- fragment server
-- Which server this is: positions in its sets and hashes mean nothing to another one, nor to this one after a restart,
-- since their order is random and each process's own. So is where it keeps things, which tells one from the other.
local server = string.sub(redis.sha1hex(tostring(redis)), 1, 8)

--- fragment clock
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

--- fragment expiry
-- When the bucket `expires`, in milliseconds since 1970; -1: never.
expires = try('PEXPIRETIME', meta)
if type(expires) == 'table' then -- before Redis 7
  expires = call('PTTL', meta)
  if expires >= 0 then expires = now + expires end
end

--- fragment forget writers
-- A writer that is new here. A stamp can be forgotten when its deadline is over: whatever carries it is refused
-- for being late. One further ahead than any deadline is from before somebody set the clock back. A few at
-- random are looked at, so that a call costs the same however many there are, and more are forgotten than come
-- as long as a quarter can be; as long as they are few, none is. `known` counts the expiry, too.
known, forgotten = call('HLEN', writers), {}
if known > FEW_WRITERS then
  local some = call('HRANDFIELD', writers, known > MOST_WRITERS and '-64' or '-4', 'WITHVALUES')
  for j = 1, #some, 2 do
    local ends = tonumber(string.match(some[j + 1], '%.(%d+)$')) or 0
    if some[j] ~= '~' and (ends + SPARE_MS < now or ends > now + WRITERS_LIFE_MS) then
      forgotten[#forgotten + 1] = some[j]
    end
  end
end
