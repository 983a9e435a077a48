// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "trafficd",
    products: [
        .executable(name: "trafficd", targets: ["trafficd"]),
        .executable(name: "trafficctl", targets: ["trafficctl"]),
        .library(name: "TrafficKit", targets: ["TrafficKit"]),
        .library(name: "TrafficKitNIO", targets: ["TrafficKitNIO"]),
        .library(name: "TrafficKitAsyncHTTPClient", targets: ["TrafficKitAsyncHTTPClient"]),
        .library(name: "TrafficKitHummingbird", targets: ["TrafficKitHummingbird"]),
        .library(name: "TrafficKitURLSession", targets: ["TrafficKitURLSession"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // The kernel side: bpf/ is compiled by the plugin and embedded in TrafficCapture.
        .systemLibrary(name: "CLibbpf", pkgConfig: "libbpf", providers: [.apt(["libbpf-dev", "libelf-dev"])]),
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "CNcurses", providers: [.apt(["libncurses-dev"])]),
        // Signal handlers of the full screen.
        .target(name: "CTerminal"),
        .target(name: "CTrafficABI"),
        .executableTarget(name: "bpfembed", swiftSettings: strict),
        .plugin(
            name: "BPFBuildPlugin",
            capability: .buildTool(),
            dependencies: ["bpfembed"],
            path: "Sources/BPFBuildPlugin"
        ),

        // The core: values, then the pure ledger.
        .target(name: "TrafficModel", swiftSettings: strict),
        // What a cooperating library tells the daemon: values and their bytes, nothing else.
        .target(name: "TrafficReport", swiftSettings: strict),
        .target(
            name: "TrafficLedger",
            dependencies: [
                "TrafficModel", "TrafficReport",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            swiftSettings: strict
        ),

        // The rim: kernel in, text out.
        .target(
            name: "TrafficCapture",
            dependencies: ["CLibbpf", "CLinux", "CTrafficABI", "TrafficModel"],
            swiftSettings: strict,
            plugins: ["BPFBuildPlugin"]
        ),
        .target(
            name: "TrafficExport",
            dependencies: ["TrafficModel"],
            resources: [
                .embedInCode("AuditReport.schema.json"), .embedInCode("DoctorReport.schema.json"),
                .embedInCode("ExchangeReport.schema.json"),
                .embedInCode("Snapshot.schema.json"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficControl",
            dependencies: [
                "TrafficExport", "TrafficModel",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        .target(name: "TrafficView", dependencies: ["TrafficModel"], swiftSettings: strict),

        // The library that an app links.
        .target(name: "TrafficKit", dependencies: ["TrafficReport"], swiftSettings: strict),
        .target(
            name: "TrafficKitNIO",
            dependencies: [
                "TrafficKit", "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficKitAsyncHTTPClient",
            dependencies: [
                "TrafficKit", "TrafficKitNIO", "TrafficReport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TrafficKitHummingbird",
            dependencies: [
                "TrafficKit", "TrafficKitNIO",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .target(name: "TrafficKitURLSession", dependencies: ["TrafficKit", "TrafficReport"], swiftSettings: strict),

        .executableTarget(
            name: "trafficd",
            dependencies: [
                "TrafficCapture", "TrafficControl", "TrafficLedger", "TrafficModel",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "trafficctl",
            dependencies: [
                "CNcurses", "CTerminal", "TrafficExport", "TrafficModel", "TrafficView",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),

        // A server and a client that use the library, to try it with. Not installed.
        .executableTarget(
            name: "trafficexample",
            dependencies: [
                "TrafficKit", "TrafficKitAsyncHTTPClient", "TrafficKitHummingbird",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),

        // Makes known traffic and prints what its calls returned: the ground truth of the accuracy tests.
        .executableTarget(
            name: "trafficgen",
            path: "Tests/trafficgen",
            cSettings: [.treatAllWarnings(as: .error)]
        ),
        // Compares a snapshot with it; one implementation for the tests, scripts/accuracy and the kernel lab.
        .target(
            name: "GroundTruth",
            dependencies: ["TrafficModel"],
            path: "Tests/GroundTruth",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "trafficcheck",
            dependencies: [
                "GroundTruth", "TrafficModel",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Tests/trafficcheck",
            swiftSettings: strict
        ),
        // URLSession in a process of its own, which can trust a certificate of the tests.
        .executableTarget(
            name: "trafficfetch",
            dependencies: ["TrafficKit", "TrafficKitURLSession"],
            path: "Tests/trafficfetch",
            swiftSettings: strict,
            // Foundation's networking stands on libcurl, which `--static-swift-stdlib` leaves to the program to link.
            linkerSettings: [.linkedLibrary("curl")]
        ),
        // Servers of ours and witnesses of others, for the tests of TrafficKit's integrations.
        .target(
            name: "TrafficKitTestSupport",
            dependencies: [
                "TrafficKit", "TrafficKitNIO", "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            path: "Tests/TrafficKitTestSupport",
            swiftSettings: strict
        ),
        // Frames that a test forges.
        .target(name: "CTunTap", path: "Tests/CTunTap", cSettings: [.treatAllWarnings(as: .error)]),
        // Parsers of ours beside those of others, on real traffic that is cut and damaged: by the million by hand, in short in the tests.
        .target(
            name: "FuzzCases",
            dependencies: [
                "CTrafficABI", "TrafficCapture", "TrafficKit", "TrafficKitNIO", "TrafficModel", "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Tests/FuzzCases",
            resources: [
                .embedInCode("Traffic/http1.txt"), .embedInCode("Traffic/http2.txt"), .embedInCode("Traffic/tls.txt"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "trafficfuzz",
            dependencies: ["FuzzCases", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            path: "Tests/trafficfuzz",
            swiftSettings: strict
        ),
        .testTarget(name: "FuzzTests", dependencies: ["FuzzCases", "TrafficKit"], swiftSettings: strict),
        .testTarget(name: "TrafficModelTests", dependencies: ["TrafficModel"], swiftSettings: strict),
        .testTarget(
            name: "TrafficLedgerTests",
            dependencies: ["TrafficExport", "TrafficLedger", "TrafficModel", "TrafficReport", "TrafficView"],
            resources: [.copy("Recordings")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficCaptureTests",
            dependencies: [
                "CLibbpf", "CLinux", "CTrafficABI", "CTunTap", "GroundTruth", "TrafficCapture", "TrafficLedger",
                "TrafficModel",
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficExportTests",
            dependencies: ["TrafficExport", "TrafficModel"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficControlTests",
            dependencies: [
                "TrafficControl", "TrafficExport", "TrafficModel",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdTesting", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficViewTests",
            dependencies: ["TrafficView", "TrafficModel"],
            exclude: ["Frames"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficReportTests",
            dependencies: ["TrafficReport"],
            exclude: ["Golden", "send_report.py"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitNIOTests",
            dependencies: [
                "TrafficKit", "TrafficKitNIO", "TrafficKitTestSupport", "TrafficReport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitAsyncHTTPClientTests",
            dependencies: [
                "TrafficKit", "TrafficKitAsyncHTTPClient", "TrafficKitTestSupport", "TrafficReport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitHummingbirdTests",
            dependencies: [
                "TrafficKit", "TrafficKitHummingbird", "TrafficKitTestSupport", "TrafficReport",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdHTTP2", package: "hummingbird"),
                .product(name: "HummingbirdTLS", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitTests",
            dependencies: ["TrafficKit", "TrafficKitTestSupport", "TrafficReport"],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TrafficKitURLSessionTests",
            dependencies: ["TrafficKit", "TrafficKitTestSupport", "TrafficKitURLSession", "TrafficReport"],
            swiftSettings: strict
        ),
        // The comparisons themselves, on made-up numbers: they would be worth nothing if they let a wrong count pass.
        .testTarget(
            name: "GroundTruthTests",
            dependencies: ["GroundTruth", "TrafficModel"],
            swiftSettings: strict
        ),
        // Whole programs: trafficd and trafficctl as processes, real sockets, a real kernel.
        .testTarget(
            name: "SystemTests",
            dependencies: [
                "GroundTruth", "TrafficExport", "TrafficKit", "TrafficKitAsyncHTTPClient", "TrafficKitNIO",
                "TrafficKitTestSupport", "TrafficKitURLSession", "TrafficModel", "TrafficReport", "trafficd",
                "trafficctl", "trafficexample", "trafficfetch", "trafficgen",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            exclude: ["Help"],
            swiftSettings: strict
        ),
    ],
    swiftLanguageModes: [.v6]
)
