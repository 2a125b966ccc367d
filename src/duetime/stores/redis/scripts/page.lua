-- page: rows in the order of an index of ids, from a place on ('': from its end), upwards or
-- downwards; and whether these are the last ones.
local index, place, is_down = prefix .. ARGV[2], ARGV[3], ARGV[4] == '1'
local limit, heaviest, ids = tonumber(ARGV[5]), tonumber(ARGV[6]), nil
if is_down then
  local behind = place == '' and '+' or '(' .. place
  ids = redis.call('ZREVRANGEBYLEX', index, behind, '-', 'LIMIT', 0, limit)
else
  local behind = place == '' and '-' or '(' .. place
  ids = redis.call('ZRANGEBYLEX', index, behind, '+', 'LIMIT', 0, limit)
end
local found = rows(ids, heaviest, '')
return {found, #found == #ids and #ids < limit and 1 or 0}
