/// The version of `trafficd` and `trafficctl`, which are released together.
public enum TrafficVersion {
    public static let current = "0.1.0"
}
