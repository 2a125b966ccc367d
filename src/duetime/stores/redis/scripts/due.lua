-- due: lines of the due index from one place to another, of the shards asked for. It looks at so
-- many only, since nobody else is served meanwhile; with them comes where to go on, or ''.
local shards, behind, to, limit, most = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local lines = redis.call('ZRANGEBYLEX', DUE, '(' .. behind, '(' .. to, 'LIMIT', 0, most)
local found = {}
for _, line in ipairs(lines) do
  if #found == limit then break end
  if is_of(shards, line:sub(17)) then found[#found + 1] = line end
end
return {found, #found < limit and #lines == most and lines[most] or ''}
