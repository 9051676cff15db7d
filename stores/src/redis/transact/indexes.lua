
-- Indexes: each is one hash, in the form of index/segments.rs. What is written here is explained in operations.lua.

--- add-documents: index, number first, number next, number documents, number terms, texts
--- probe
--@ is an index
if count > 0 and not repeated then
  if first < index.next then return { NOT_ABOVE, now, sub(index.field, 7) } end
  if not index.known then coming = coming + 1 end
end
--- apply
-- Of each field its name, and what is appended to it.
if writes and count > 0 then
  if not index.known then
    call('UNLINK', index.hash)
    index.known, index.length = true, 0
  end
  local was_empty = index.length == 0
  for at = from, from + count - 1, 4000 do
    local some, fields = math.min(4000, from + count - at) / 2, {}
    for j = 1, some do fields[j] = ARGV[at + 2 * j - 2] end
    local before = was_empty and {} or call('HMGET', index.hash, unpack(fields))
    local set = {}
    for j = 1, some do
      local more = ARGV[at + 2 * j - 1]
      set[2 * j - 1], set[2 * j] = fields[j], before[j] and before[j] .. more or more
    end
    index.length = index.length + call('HSET', index.hash, unpack(set))
  end
  index.next, index.documents, index.terms = next, index.documents + documents, index.terms + terms
  --@ note index
  if was_empty and expires > 0 then undated[#undated + 1] = index.hash end
end
--@ tell index

--- remove-documents: index, texts
--- probe
--@ is an index
-- Of each run its segment, and its first and last position in that. What is left of the fields is reckoned here, since
-- another step may refuse.
local at, last = from, (repeated or index.length == 0) and 0 or from + count - 1
index.left, index.gone_documents, index.gone_terms = {}, 0, 0
while at <= last do
  local segment, runs_at, runs_end = ARGV[at], at, at
  while runs_end <= last and ARGV[runs_end] == segment do runs_end = runs_end + 3 end
  at = runs_end
  local names, fields, gone = { segment }, { call('HGET', index.hash, segment) }, 0
  local number = 1
  while number <= #names do
    local field, width = fields[number], number == 1 and MARK_BYTES or OCCURRENCE_BYTES
    if field then
      -- Entries before `entry` have been seen, and are in `left` if they stay.
      local size, entry, left = (#field - #field % width) / width, 0, nil
      for run = runs_at, runs_end - 1, 3 do
        local low, high = tonumber(ARGV[run + 1]), tonumber(ARGV[run + 2])
        local from_here, to_here = entry, size
        while from_here < to_here do
          local middle = (from_here + to_here - (from_here + to_here) % 2) / 2
          local one, two = byte(field, middle * width + 1, middle * width + 2)
          if one * 4 + (two - two % 64) / 64 < low then from_here = middle + 1 else to_here = middle end
        end
        local begins = from_here
        to_here = size
        while from_here < to_here do
          local middle = (from_here + to_here - (from_here + to_here) % 2) / 2
          local one, two = byte(field, middle * width + 1, middle * width + 2)
          if one * 4 + (two - two % 64) / 64 <= high then from_here = middle + 1 else to_here = middle end
        end
        if from_here > begins then
          left = (left or '') .. sub(field, entry * width + 1, begins * width)
          gone, entry = gone + from_here - begins, from_here
        end
      end
      if left then
        local place = #index.left
        index.left[place + 1], index.left[place + 2] = names[number], left .. sub(field, entry * width + 1)
      end
    end
    if number == 1 and gone > 0 then
      -- Some are there: so their terms are, in any of the shards.
      index.gone_documents, gone = index.gone_documents + gone, 0
      for shard = 0, 255 do names[shard + 2] = string.format('%s:%02x', segment, shard) end
      fields = call('HMGET', index.hash, unpack(names))
    end
    number = number + 1
  end
  index.gone_terms = index.gone_terms + gone
end
--- apply
if writes and #index.left > 0 then
  local set, empty = {}, {}
  for j = 1, #index.left, 2 do
    if index.left[j + 1] == '' then empty[#empty + 1] = index.left[j]
    else set[#set + 1], set[#set + 2] = index.left[j], index.left[j + 1] end
  end
  for j = 1, #set, 4000 do call('HSET', index.hash, unpack(set, j, math.min(j + 3999, #set))) end
  for j = 1, #empty, 4000 do call('HDEL', index.hash, unpack(empty, j, math.min(j + 3999, #empty))) end
  index.documents, index.terms = index.documents - index.gone_documents, index.terms - index.gone_terms
  --@ note index
end
--@ tell index

--- search: index, number newest, text shards
--- probe
--@ is an index
--- apply
-- Of each shard three characters, which its name ends with.
local low, high = math.max(0, index.next - newest), index.next - 1
--@ segments

--- read-marks: index, number position, number count
--- probe
--@ is an index
--- apply
local low, high, shards = position, math.min(position + count, index.next) - 1, ''
--@ segments

--- fragment segments
-- Those with a position from `low` to `high`, from the newest on, as they are: of each its number, its marks, and the
-- shards. Before them where the index stands, the number of the oldest that was looked at, and how many there are.
--@ tell index
local oldest_at, count_at, wanted = said + 1, said + 2, {}
for j = 1, #shards, 3 do wanted[#wanted + 1] = sub(shards, j, j + 2) end
local segment, oldest = math.floor(high / SEGMENT), math.floor(low / SEGMENT)
if index.length == 0 or low > high then oldest = segment + 1 end
reply[oldest_at], reply[count_at], said = 0, 0, count_at
while segment >= oldest do
  local name = string.format('%.0f', segment)
  local names = { name }
  for j = 1, #wanted do names[j + 1] = name .. wanted[j] end
  local fields = call('HMGET', index.hash, unpack(names))
  if fields[1] then
    said = said + 1
    reply[said] = segment
    for j = 1, #names do
      reply[said + j] = fields[j]
      if fields[j] then searched_bytes = searched_bytes - #fields[j] end
    end
    said = said + #names
    reply[count_at] = reply[count_at] + 1
  end
  if searched_bytes <= 0 then
    reply[oldest_at] = segment
    break
  end
  segment = segment - 1
end

--- fragment is an index
if index.is_wrong then return { WRONG_TYPE, now, sub(index.field, 7) } end

--- fragment note index
call('HSET', meta, index.field, string.format('%.0f %.0f %.0f', index.next, index.documents, index.terms))

--- fragment tell index
reply[said + 1], reply[said + 2], reply[said + 3] = index.next, index.documents, index.terms
said = said + 3
