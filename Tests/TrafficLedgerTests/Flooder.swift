/// A stranger who uses up all the room there is.
enum Flooder: CaseIterable {
    case user
    /// With a process for each id of a range that was given to the user (subuid(5)).
    case subordinateIDs

    /// - Parameter process: The number of the process.
    func uid(_ process: Int) -> UInt32 {
        switch self {
        case .user: 65_534
        case .subordinateIDs: 131_072 + UInt32(process) % 65_536
        }
    }
}
