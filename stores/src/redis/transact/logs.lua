
-- Logs: each is one list. What is written here is explained in operations.lua.

--- append: log, limit reset, texts
--- probe
--@ is a log
--@ log may come
--- apply
if reset == 1 and writes and log.length > 0 then
  call('UNLINK', log.list)
  log.first, log.length = log.first + log.length, 0
  call('HSET', meta, log.field, log.first)
end
if writes and count > 0 then
  if not log.first then
    call('UNLINK', log.list)
    call('HSET', meta, log.field, 0)
    log.first = 0
  end
  local was_empty = log.length == 0
  for first = from, from + count - 1, 4000 do
    log.length = call('RPUSH', log.list, unpack(ARGV, first, math.min(first + 3999, from + count - 1)))
  end
  if was_empty and expires > 0 then undated[#undated + 1] = log.list end
end
--@ tell extent

--- read: log, limit backwards, number max_records, number max_bytes
--- probe
--@ is a log
--- apply
local low, high = 0, math.min(log.length, max_records) - 1
if backwards == 1 then
  high = log.length - 1
  low = math.max(0, high - max_records + 1)
end
--@ range

--- read-over: log, limit backwards, limit only_over, limit leave, limit max_records, limit max_bytes
--- probe
--@ is a log
--- apply
-- Most calls have nothing to read. What they limit hardly varies, and is part of their shape.
local low, high = 0, log.length > only_over and log.length - leave - 1 or -1
if backwards == 1 then low = math.max(0, high - max_records + 1) else high = math.min(high, max_records - 1) end
--@ range

--- read-at: log, number max_bytes, text spans
--- probe
--@ is a log
--- apply
-- Of each span a position and a count. All are one text, or each number of spans would have a script of its own.
reply[said + 1], reply[said + 2], reply[said + 3] = log.first or 0, log.length, 0
local spans_at, bytes, step, told = said + 3, 0, FIRST_STEP, 0
local left = room_bytes > 0 and math.min(room, MOST_RECORDS) or 0
max_bytes, said = math.min(max_bytes, room_bytes), spans_at
for position, count in string.gmatch(spans, '(%d+) (%d+)') do
  local low = position - (log.first or 0)
  local high = math.min(low + count, log.length) - 1
  low = math.max(low, 0)
  if low <= high and left > 0 then
    local span_at, found = said + 2, 0
    reply[said + 1], reply[span_at] = log.first + low, 0
    while low <= high and left > 0 do
      -- Redis goes there from the nearer end, node by node.
      local depth = math.min(low, log.length - low)
      -- A run within reach of an end is read to its end.
      if found > 0 then depth = math.max(0, depth - MOST_RECORDS) end
      if depth > hops and hops < MOST_HOPS then
        left = 0
        break
      end
      hops = hops - depth
      local chunk = call('LRANGE', log.list, low, math.min(high, low + math.min(step, left) - 1))
      for k = 1, #chunk do
        local record = chunk[k]
        --@ record of others
        bytes = bytes + #record
        if left > 0 and (bytes <= max_bytes or told == 0) then
          found, left, told = found + 1, left - 1, told + 1
          reply[span_at + found] = record
        else left = 0 end
      end
      low, step = low + #chunk, LAST_STEP
      if #chunk == 0 then break end
    end
    if found > 0 then
      reply[span_at] = found
      reply[spans_at] = reply[spans_at] + 1
      said = span_at + found
    else reply[said + 1], reply[span_at] = nil, nil end
  end
end
local found = told
--@ take room

--- replace-oldest: log, number most, texts
--- probe
--@ is a log
if not repeated and count > math.min(most, log.length) then return { TOO_MANY_RECORDS, now, sub(log.field, 5) } end
--- apply
local replaced = math.min(most, log.length)
if writes and replaced > 0 then
  -- All at the old end, for Redis goes to any other place node by node; and the list is never empty in between.
  if count == 0 then call('LTRIM', log.list, replaced, '-1')
  else
    if replaced > 1 then call('LTRIM', log.list, replaced - 1, '-1') end
    call('LSET', log.list, '0', ARGV[from + count - 1])
    for last = count - 1, 1, -4000 do
      local some = {}
      for j = last, math.max(1, last - 3999), -1 do some[#some + 1] = ARGV[from + j - 1] end
      call('LPUSH', log.list, unpack(some))
    end
  end
  if replaced > count then
    log.first, log.length = log.first + replaced - count, log.length - replaced + count
    call('HSET', meta, log.field, log.first)
  end
end
--@ tell extent

--- rewrite: log, texts
--- probe
--@ is a log
-- Of each record its position and its text.
for j = from, repeated and 0 or from + count - 1, 2 do
  local index = ARGV[j] - (log.first or 0)
  if index < 0 or index >= log.length then return { INVALID_POSITION, now, sub(log.field, 5) } end
  -- Redis goes there from the nearer end, node by node.
  if j > from then hops = hops - math.min(index, log.length - index) end
end
if hops < 0 then return { TOO_DEEP, now, sub(log.field, 5) } end
--- apply
for j = from, writes and from + count - 1 or 0, 2 do call('LSET', log.list, ARGV[j] - log.first, ARGV[j + 1]) end
--@ tell extent

--- fragment is a log
if log.is_wrong then return { WRONG_TYPE, now, sub(log.field, 5) } end

--- fragment log may come
if count > 0 and not log.named and log.length == 0 and not repeated then coming = coming + 1 end

--- fragment tell extent
reply[said + 1], reply[said + 2] = log.first or 0, log.length
said = said + 2

--- fragment record of others
-- One that is longer than any of ours is returned as an empty text.
if #record > LONGEST_RECORD then
  room_bytes = room_bytes - #record
  record = ''
end

--- fragment range
-- The records from index `low` to `high`, from the newer end on if `backwards`: where the log stands, the position
-- of the first, how many they are, and those, oldest first.
if room_bytes == 0 then low = high + 1
elseif high - low >= room then
  if backwards == 1 then low = high - room + 1 else high = low + room - 1 end
end
local begins, ends, found, bytes, step, chunk = low, high, 0, 0, FIRST_STEP, nil
if max_bytes > room_bytes then max_bytes = room_bytes end
reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = log.first or 0, log.length, 0, 0
while low <= high and bytes <= max_bytes do
  -- In steps: what is over the limit is not read to its end.
  if backwards == 1 then
    chunk = call('LRANGE', log.list, math.max(low, high - step + 1), high)
    high = high - step
  else
    chunk = call('LRANGE', log.list, low, math.min(high, low + step - 1))
    low = low + step
  end
  step = LAST_STEP
  local size = #chunk
  for j = 1, size do
    local record = chunk[backwards == 1 and size + 1 - j or j]
    --@ record of others
    bytes = bytes + #record
    if bytes <= max_bytes or found == 0 then
      found = found + 1
      reply[said + 4 + found] = record
    end
  end
end
if backwards == 1 then
  begins = ends + 1 - found
  for j = 1, found / 2 do
    local a, b = said + 4 + j, said + 5 + found - j
    reply[a], reply[b] = reply[b], reply[a]
  end
end
reply[said + 3], reply[said + 4] = (log.first or 0) + (found > 0 and begins or log.length), found
said = said + 4 + found
--@ take room
