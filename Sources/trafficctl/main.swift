import AsyncHTTPClient
import CNcurses

print("x")
