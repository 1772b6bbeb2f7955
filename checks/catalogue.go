package checks

// Catalogue is every check, in the order they are reported: reaching a node
// first, then the machine, then what is installed there, then its network.
// IDs are a contract: stable, and never used again for something else.
var Catalogue = []Check{
	sshReach,
	sshHostKey,
	sshLogin,
	sshShell,
	sshBetweenNodes,
	agentStart,

	hostDistinct,
	hostNames,
	launcherReady,
	launcherArgs,
	launcherEnv,

	workdirPresent,
	scriptSame,
	slotsFit,
	pythonSame,
	torchSame,
	ncclSame,
	protobufSame,
	deepspeedSame,
	packagesSame,
	protobufWorks,
	ncclLoaded,
	deepspeedConfig,
	deepspeedOps,
	offloadPath,
	envSame,
	envSane,

	shmSize,
	shmWritable,
	shmLeftovers,
	shmLimits,
	numaMemory,

	memlockLimit,
	openFilesLimit,
	diskSpace,
	memoryAvailable,
	clockSkew,

	gpuDriverLoads,
	gpuCount,
	gpuModelSame,
	gpuDriverSame,
	gpuDriverRunsCUDA,
	gpuHealthy,
	gpuIdle,
	gpuMode,
	gpuThrottle,
	gpuLinks,
	gpuPeerAccess,
	gpuFabric,
	gpuDirect,

	nicChoice,
	nicSame,
	nodeMesh,
	pathMTU,
	masterAddress,
	masterPortFree,
	rendezvous,
	ibLinks,
	ibSame,

	throughput,

	drift,
	expectation,
	policyInForce, // the last: it tells which waivers nothing needed
}

// NotCovered is what can end a launch and no check looks at: a pass says
// nothing of it, and the report says so.
const NotCovered = "traffic over InfiniBand or RoCE; whether a GPU computes"
