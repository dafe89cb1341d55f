#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A compile, as its user sees it, and one that fails.
cat > life.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

static unsigned char grid[2][40][80];

static int step(int from)
{
	int alive = 0;

	for (int y = 0; y < 40; y++)
		for (int x = 0; x < 80; x++) {
			int n = 0;

			for (int dy = 39; dy <= 41; dy++)
				for (int dx = 79; dx <= 81; dx++)
					n += grid[from][(y + dy) % 40][(x + dx) % 80];
			n -= grid[from][y][x];
			grid[!from][y][x] = n == 3 || (n == 2 && grid[from][y][x]);
			alive += grid[!from][y][x];
		}
	return alive;
}

int main(void)
{
	int alive = 0;

	srand(7);
	for (int i = 0; i < 40 * 80; i++)
		grid[0][i / 80][i % 80] = rand() % 3 == 0;
	for (int i = 0; i < 50; i++)
		alive = step(i & 1);
	printf("%d alive, %.6f\n", alive, sqrt(alive));
	return alive % 256;
}
END
gcc -O1 -Wall -c life.c && sha256sum life.o
gcc -o life life.o -lm && sha256sum life && ./life
echo "life $?"
echo 'int main(void) { return nothing; }' > bad.c
gcc -c bad.c
echo "bad $?"
