-- read: the rows of these ids, or of as many of the first ones as are not too heavy together; of one tenant, or of all:
-- ''.
local heaviest, tenant, ids = tonumber(ARGV[2]), ARGV[3], {}
for place = 4, #ARGV do ids[place - 3] = ARGV[place] end
return rows(ids, heaviest, tenant)
