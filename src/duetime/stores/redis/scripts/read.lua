-- read: the rows of these ids, or of as many of the first ones as are not too heavy together.
local heaviest, ids = tonumber(ARGV[2]), {}
for place = 3, #ARGV do ids[place - 2] = ARGV[place] end
return rows(ids, heaviest)
