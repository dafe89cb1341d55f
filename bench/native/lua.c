// SPDX-License-Identifier: GPL-2.0
/* Lua: its interpreter runs a script that does a little of everything; see program.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>

#include "program.h"

/*
 * These replace the C library's functions: Lua seeds its string hashes by the time, and table.sort
 * chooses its pivots by both. Each round has to do the same work.
 */
time_t time(time_t *t)
{
	if (t)
		*t = 1;
	return 1;
}

clock_t clock(void)
{
	return 1;
}

static const char script[] =
	"local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end\n"
	"local out = { fib(26) }\n"
	"local seed = 1\n"
	"local function random(n) seed = (seed * 1103515245 + 12345) & 0x7fffffff\n"
	"  return (seed >> 8) % n end\n"
	/* arrays, closures called back from C */
	"local t = {}\n"
	"for i = 1, 30000 do t[i] = random(1000000) end\n"
	"table.sort(t)\n"
	"table.sort(t, function(a, b) return a > b end)\n"
	"out[#out + 1] = t[1] - t[#t]\n"
	/* floating point: n bodies, roughly */
	"local x, y, vx, vy = 1.0, 0.0, 0.0, 1.0\n"
	"for i = 1, 300000 do local r = (x * x + y * y) ^ 1.5\n"
	"  vx, vy = vx - x / r * 0.001, vy - y / r * 0.001\n"
	"  x, y = x + vx * 0.001, y + vy * 0.001 end\n"
	"out[#out + 1] = string.format('%.9f %.9f', x, y)\n"
	/* sieve */
	"local sieve, primes = {}, 0\n"
	"for i = 2, 100000 do if not sieve[i] then primes = primes + 1\n"
	"  for k = i * i, 100000, i do sieve[k] = true end end end\n"
	"out[#out + 1] = primes\n"
	/* objects and methods */
	"local Point = {} Point.__index = Point\n"
	"function Point.new(x, y) return setmetatable({ x = x, y = y }, Point) end\n"
	"function Point:add(o) return Point.new(self.x + o.x, self.y + o.y) end\n"
	"local p = Point.new(0, 0)\n"
	"for i = 1, 100000 do p = p:add(Point.new(i, -i)) end\n"
	"out[#out + 1] = p.x + p.y\n"
	/* strings and tables with string keys */
	"local words, text = {}, {}\n"
	"for i = 1, 20000 do text[i] = 'w' .. random(500) end\n"
	"for w in table.concat(text, ' '):gmatch('%a%d+') do words[w] = (words[w] or 0) + 1 end\n"
	"local keys = {} for k in pairs(words) do keys[#keys + 1] = k end\n"
	"table.sort(keys)\n"
	"for i, k in ipairs(keys) do keys[i] = k .. '=' .. words[k] end\n"
	"out[#out + 1] = table.concat(keys, ','):gsub('w(%d)', '%1'):upper()\n"
	/* errors and coroutines */
	"local caught = 0\n"
	"for i = 1, 2000 do if not pcall(error, 'x') then caught = caught + 1 end end\n"
	"local co = coroutine.wrap(function() for i = 1, 20000 do coroutine.yield(i) end return 0 end)\n"
	"for i = 1, 20000 do caught = caught + co() end\n"
	"out[#out + 1] = caught\n"
	"return table.concat(out, ' ')\n";

const char *program_version(void)
{
	return LUA_RELEASE;
}

void program_prepare(void)
{
}

unsigned long program_work(void)
{
	lua_State *l = luaL_newstate();
	unsigned long h;
	const char *s;
	size_t len;

	luaL_openlibs(l);
	if (luaL_dostring(l, script)) {
		fprintf(stderr, "lua: %s\n", lua_tostring(l, -1));
		exit(2);
	}
	s = lua_tolstring(l, -1, &len);
	h = program_hash(PROGRAM_HASH, s, len);
	lua_close(l);
	return h;
}
