-- Which of these commands the user may not call: of each its name, and how many keys it takes. Before Redis 7 nobody can
-- tell beforehand.

local key, check, missing = ARGV[1], redis.acl_check_cmd, {}
for j = 2, check and #ARGV or 0, 2 do
  local keys = {}
  for k = 1, tonumber(ARGV[j + 1]) do keys[k] = key end
  -- One that this server does not know is none that it denies.
  local told, may = pcall(check, ARGV[j], unpack(keys))
  if told and not may then missing[#missing + 1] = ARGV[j] end
end
return missing
