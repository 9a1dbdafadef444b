// SPDX-License-Identifier: Apache-2.0
// A program of one room and the rooms that it may use.
int main() { return 0; }
