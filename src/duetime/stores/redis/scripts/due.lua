-- due: lines of the due index from one place to another, of the shards asked for. It looks at so
-- many only, since nobody else is served meanwhile; with them comes where to go on, or ''.
local shards, behind, to, limit, most = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local found, looked = {}, 0
while #found < limit and looked < most do
  local size = math.min(math.max(limit - #found, 100), most - looked)
  local lines = redis.call('ZRANGEBYLEX', DUE, '(' .. behind, '(' .. to, 'LIMIT', 0, size)
  for _, line in ipairs(lines) do
    if #found < limit and is_of(shards, line:sub(17)) then found[#found + 1] = line end
  end
  if #lines < size then return {found, ''} end
  behind, looked = lines[size], looked + size
end
return {found, #found < limit and behind or ''}
