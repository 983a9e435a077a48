import ArgumentParser
import Hummingbird
import ServiceLifecycle

print("x")
