/* Maps for one socket each, and what their programs do with its bytes. Where the kernel refuses, the run is skipped. */
#ifndef SOCKMAP_PROGRAMS_H
#define SOCKMAP_PROGRAMS_H

int make_sockmap(void);
void put_socket(int map, int fd); /* into the map, which must have its programs by then */
void take_socket_out(int map);
void redirect_received(int map, int target); /* what the socket receives leaves by the other map's socket */
void redirect_sent(int map, int target); /* what the socket sends goes to the other map's socket, without TCP */
void pass_received(int map); /* to the socket's own reader, by the sockmap's queue */
void parse_received(int map); /* cut into messages first: every segment is one */

#endif
